"""A load of changes whose outcome is known: each is made once, must succeed, and is kept in a model.

The load runs in processes on one or more mounts, each in a directory of its own. `check` compares the directory with
the model. All loads share one counter file, which each of them increments under a lock.
"""

import fcntl
import multiprocessing
import os
import random
import stat
import time


class Load:
    """Random changes below `directory`, until stopped. They run in a process of their own: a process forked with open
    files of the mount would wait for the server while it starts the server. After the end `failures` holds the errors
    that a program would have seen, and the model is complete."""

    MODEL = ("files", "modes", "directories", "groups", "counts", "failures", "increments")

    def __init__(self, directory, seed, slow=0.0, counter=None, links=True):
        self.directory = directory
        self.links = links  # whether files get more than one name
        self.counter = counter  # a file of 24 bytes: three numbers, each under a kind of lock
        self.random = random.Random(seed)
        self.slow = slow  # seconds between changes
        self.files = {}  # name: content
        self.modes = {}  # name: permission bits
        self.directories = set()
        self.groups = {}  # name: the set of all names of the same file
        self.counts = {}
        self.failures = []
        self.serial = 0
        self.increments = [0, 0, 0]
        context = multiprocessing.get_context("fork")
        self.done = context.Value("L", 0)
        self.failed = context.Value("b", 0)
        self.stop_now = context.Event()
        self.results, self.sender = context.Pipe(duplex=False)
        self.process = None
        self.context = context

    def start(self, count=None):
        self.process = self.context.Process(target=self.main, args=(count,), daemon=True)
        self.process.start()
        return self

    def main(self, count):
        for number in os.listdir("/proc/self/fd"):  # also connections of other parts of the test
            if int(number) > 2 and int(number) != self.sender.fileno():
                try:
                    os.close(int(number))
                except OSError:
                    pass
        try:
            os.mkdir(self.directory)
            self.run(count)
        except OSError as error:
            self.failures.append(str(error))
        self.failed.value = bool(self.failures)
        self.sender.send({name: getattr(self, name) for name in self.MODEL})

    def wait(self, seconds):
        """Waits for the end; False if the load does not end within `seconds`."""
        if not self.results.poll(seconds):
            return False
        for name, value in self.results.recv().items():
            setattr(self, name, value)
        self.process.join(10)
        return True

    def stop(self, seconds):
        """Lets the current change end; False if it does not end within `seconds`."""
        self.stop_now.set()
        return self.wait(seconds)

    @property
    def changes(self):
        return self.done.value

    def run(self, count):
        kinds = (self.create, self.create_exclusive, self.append, self.append, self.rename, self.replace, self.link,
                 self.read_back, self.unlink, self.mkdir, self.rmdir, self.chmod, self.fsynced_write, self.truncate)
        if not self.links:
            kinds = tuple(kind for kind in kinds if kind != self.link)
        if self.counter is not None:
            kinds += (self.lock,)
        while not self.stop_now.is_set() and (count is None or self.done.value < count):
            kind = self.random.choice(kinds)
            try:
                if kind():
                    self.done.value += 1
                    self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            except OSError as error:
                self.failures.append(f"{kind.__name__}: {error}")
                return
            if self.slow:
                time.sleep(self.slow)

    def path(self, name):
        return os.path.join(self.directory, name)

    def new_name(self, kind):
        self.serial += 1
        return f"{kind}{self.serial}"

    def some_file(self):
        return self.random.choice(sorted(self.files)) if self.files else None

    # Each returns whether it could make a change.

    def create(self):
        name = self.new_name("file")
        data = os.urandom(self.random.choice((0, 10, 5000, 70000)))
        with open(self.path(name), "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
        self.files[name], self.modes[name] = data, 0o644
        return True

    def create_exclusive(self):
        name = self.new_name("only")
        os.close(os.open(self.path(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.files[name], self.modes[name] = b"", 0o600
        return True

    def append(self):
        if not (name := self.some_file()):
            return False
        data = os.urandom(self.random.randrange(1, 2000))
        with open(self.path(name), "ab", buffering=0) as file:
            file.write(data)
        self.for_links(name, lambda content: content + data)
        return True

    def fsynced_write(self):
        if not (name := self.some_file()):
            return False
        data = os.urandom(self.random.randrange(1, 30000))
        with open(self.path(name), "r+b", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
        self.for_links(name, lambda content: data + content[len(data):])
        return True

    def truncate(self):
        if not (name := self.some_file()):
            return False
        size = self.random.randrange(0, 10000)
        os.truncate(self.path(name), size)
        self.for_links(name, lambda content: content[:size] + bytes(size - len(content[:size])))
        return True

    def read_back(self):
        """Checks the data of a file, read past the page cache."""
        if not (name := self.some_file()):
            return False
        descriptor = os.open(self.path(name), os.O_RDONLY | os.O_DIRECT)
        try:
            data = b""
            while part := os.pread(descriptor, 1 << 20, len(data)):
                data += part
        finally:
            os.close(descriptor)
        if data != self.files[name]:
            raise OSError(f"{name}: {len(data)} bytes read, {len(self.files[name])} written, first difference at "
                          f"{first_difference(data, self.files[name])}")
        return True

    def rename(self):
        if not (name := self.some_file()):
            return False
        to = self.new_name("moved")
        os.rename(self.path(name), self.path(to))
        self.move(name, to)
        return True

    def replace(self):
        """Renames over an existing name, unless both are the same file."""
        name, to = self.some_file(), self.some_file()
        if not name or name == to or self.linked(name, to):
            return False
        os.rename(self.path(name), self.path(to))
        self.drop_link(to)
        self.move(name, to)
        return True

    def link(self):
        if not (name := self.some_file()):
            return False
        to = self.new_name("link")
        os.link(self.path(name), self.path(to))
        self.groups.setdefault(name, {name}).add(to)
        self.groups[to] = self.groups[name]
        self.files[to], self.modes[to] = self.files[name], self.modes[name]
        return True

    def unlink(self):
        if len(self.files) < 20 or not (name := self.some_file()):
            return False
        os.unlink(self.path(name))
        self.drop_link(name)
        del self.files[name], self.modes[name]
        return True

    def mkdir(self):
        name = self.new_name("dir")
        os.mkdir(self.path(name), 0o755)
        self.directories.add(name)
        return True

    def rmdir(self):
        if not self.directories:
            return False
        name = self.random.choice(sorted(self.directories))
        os.rmdir(self.path(name))
        self.directories.remove(name)
        return True

    def chmod(self):
        if not (name := self.some_file()):
            return False
        mode = self.random.choice((0o600, 0o640, 0o644))
        os.chmod(self.path(name), mode)
        for one in self.groups.get(name, {name}):
            self.modes[one] = mode
        return True

    def lock(self):
        """Adds one to a number that all loads share. Two loads that hold the lock at the same time lose an
        increment."""
        which = self.random.randrange(3)
        with open(self.counter, "r+b", buffering=0) as file:
            if which == 0:
                fcntl.flock(file, fcntl.LOCK_EX)
            else:
                fcntl.lockf(file, fcntl.LOCK_EX, 8, 8 * which)  # a record lock on this number alone
            number = int.from_bytes(os.pread(file.fileno(), 8, 8 * which), "little")
            if self.random.random() < 0.3:
                time.sleep(0.01)
            os.pwrite(file.fileno(), (number + 1).to_bytes(8, "little"), 8 * which)
            if which == 2:
                fcntl.lockf(file, fcntl.LOCK_UN, 8, 16)
        self.increments[which] += 1  # the other kinds release the lock by close
        return True

    # Names of one file

    def linked(self, one, other):
        return other in self.groups.get(one, ())

    def for_links(self, name, change):
        content = change(self.files[name])
        for one in self.groups.get(name, {name}):
            self.files[one] = content

    def drop_link(self, name):
        if name in self.groups:
            self.groups[name].discard(name)
            del self.groups[name]

    def move(self, name, to):
        self.files[to], self.modes[to] = self.files.pop(name), self.modes.pop(name)
        if name in self.groups:
            group = self.groups.pop(name)
            group.discard(name)
            group.add(to)
            self.groups[to] = group

    def differences(self, directory):
        """Returns the differences between the model and `directory` (the export's) as lines."""
        found = set(os.listdir(directory))
        expected = set(self.files) | self.directories
        lines = [f"missing: {name}" for name in sorted(expected - found)]
        lines += [f"too many: {name}" for name in sorted(found - expected)]
        for name in sorted(expected & found):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if name in self.directories:
                if not stat.S_ISDIR(status.st_mode):
                    lines.append(f"{name}: not a directory")
                continue
            with open(path, "rb") as file:
                content = file.read()
            if content != self.files[name]:
                lines.append(f"{name}: {len(content)} bytes, expected {len(self.files[name])}, first difference at "
                             f"{first_difference(content, self.files[name])}")
            if stat.S_IMODE(status.st_mode) != self.modes[name]:
                lines.append(f"{name}: mode {stat.S_IMODE(status.st_mode):o}, expected {self.modes[name]:o}")
            links = len(self.groups.get(name, {name}))
            if status.st_nlink != links:
                lines.append(f"{name}: {status.st_nlink} links, expected {links}")
        return lines


def counter_differences(loads, path):
    """Compares the increments that the loads counted under locks with the numbers in the file."""
    with open(path, "rb") as file:
        data = file.read()
    found = [int.from_bytes(data[at:at + 8], "little") for at in range(0, 24, 8)]
    expected = [sum(load.increments[which] for load in loads) for which in range(3)]
    return [] if found == expected else [f"counters {found}, expected {expected}"]


def first_difference(one, other):
    for at, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return at
    return min(len(one), len(other))
