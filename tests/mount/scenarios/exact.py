"""With a server that announces changes, a mount shows the changes of other clients at once, with default options."""

import os
import random
import stat
import threading

from rig import check, equal, scenario

from .caching import two_mounts, write

NAMES = [f"name{number}" for number in range(12)]


class Changes:
    """Random changes in one directory tree of `top`, and what the tree must be after each."""

    def __init__(self, top, seed):
        self.top = top
        self.random = random.Random(seed)
        self.files = {}  # path -> inode of `content`
        self.content = {}  # inode -> [bytes, mode]
        self.links = {}  # path -> target
        self.directories = {""}

    def path(self, kind=None):
        """A path to change: of this kind, or a free one."""
        if kind is not None:
            return self.random.choice(sorted(kind)) if kind else None
        for _ in range(20):
            path = os.path.join(self.random.choice(sorted(self.directories)), self.random.choice(NAMES))
            if path not in self.files and path not in self.links and path not in self.directories:
                return path
        return None

    def taken(self, directory):
        return any(os.path.dirname(path) == directory for path in (*self.files, *self.links, *self.directories - {""}))

    def create(self):
        path = self.path()
        if path is None:
            return []
        data = b"new " + path.encode()
        write(self.top / path, data)
        inode = os.stat(self.top / path).st_ino
        self.files[path] = inode
        self.content[inode] = [data, 0o644]
        return [path]

    def unlink(self):
        path = self.path({*self.files, *self.links})
        if path is None:
            return []
        os.unlink(self.top / path)
        self.files.pop(path, None)
        self.links.pop(path, None)
        return [path]

    def rename(self):
        old = self.path({*self.files, *self.links})
        new = self.path({*self.files, *self.links}) if self.random.random() < 0.5 else self.path()
        if old is None or new is None or old == new or (old in self.files and self.files[old] == self.files.get(new)):
            return []
        os.rename(self.top / old, self.top / new)
        self.files.pop(new, None)
        self.links.pop(new, None)
        for table in (self.files, self.links):
            if old in table:
                table[new] = table.pop(old)
        return [old, new]

    def mkdir(self):
        path = self.path()
        if path is None or path.count("/") > 2 or len(self.directories) > 12:
            return []
        os.mkdir(self.top / path)
        self.directories.add(path)
        return [path]

    def rmdir(self):
        path = self.path({path for path in self.directories if path and not self.taken(path)})
        if path is None:
            return []
        os.rmdir(self.top / path)
        self.directories.remove(path)
        return [path]

    def change_file(self, change):
        path = self.path(self.files)
        if path is None:
            return []
        change(self.top / path, self.content[self.files[path]])
        return [same for same, inode in self.files.items() if inode == self.files[path]]

    def chmod(self):
        def change(path, content):
            content[1] = self.random.choice((0o600, 0o640, 0o644, 0o755))
            os.chmod(path, content[1])

        return self.change_file(change)

    def truncate(self):
        def change(path, content):
            size = self.random.randrange(40)
            os.truncate(path, size)
            content[0] = content[0][:size].ljust(size, b"\0")

        return self.change_file(change)

    def append(self):
        def change(path, content):
            data = b"+%d" % self.random.randrange(100)
            write(path, data, os.O_WRONLY | os.O_APPEND)
            content[0] += data

        return self.change_file(change)

    def link(self):
        old, new = self.path(self.files), self.path()
        if old is None or new is None:
            return []
        os.link(self.top / old, self.top / new)
        self.files[new] = self.files[old]
        return [same for same, inode in self.files.items() if inode == self.files[old]]

    def symlink(self):
        path = self.path()
        if path is None:
            return []
        target = f"to {self.random.randrange(100)}"
        os.symlink(target, self.top / path)
        self.links[path] = target
        return [path]

    def next(self):
        """Makes one change. Returns its name and the paths that it concerns."""
        kinds = (self.create, self.create, self.unlink, self.rename, self.mkdir, self.rmdir, self.chmod, self.truncate,
                 self.append, self.link, self.symlink)
        while True:
            kind = self.random.choice(kinds)
            if paths := kind():
                return kind.__name__, paths

    def names_in(self, directory):
        return sorted(os.path.basename(path) for path in (*self.files, *self.links, *self.directories - {""})
                      if os.path.dirname(path) == directory)


def look(there, model, path, what):
    """The path is on mount `there` what the model says."""
    try:
        found = os.lstat(there / path)
    except FileNotFoundError:
        found = None
    expected = path in model.files or path in model.links or path in model.directories
    equal(found is not None, expected, f"{what}: {path} exists")
    if found is None:
        return
    if path in model.links:
        equal(os.readlink(there / path), model.links[path], f"{what}: target of {path}")
    elif path in model.directories:
        check(stat.S_ISDIR(found.st_mode), f"{what}: {path} is no directory")
        links = 2 + sum(1 for inner in model.directories if inner and os.path.dirname(inner) == path)
        check(found.st_nlink in (1, links), f"{what}: {path} has {found.st_nlink} links, not {links}")
    else:
        data, mode = model.content[model.files[path]]
        links = sum(1 for inode in model.files.values() if inode == model.files[path])
        equal((stat.S_IMODE(found.st_mode), found.st_size, found.st_nlink, found.st_ino),
              (mode, len(data), links, model.files[path]), f"{what}: attributes of {path}")
        with open(there / path, "rb") as file:
            equal(file.read(), data, f"{what}: content of {path}")


@scenario(timeout=180, where="server")
def exact(rig):
    """After each of 2,000 random changes on one mount, stat, open, readlink and readdir on another show it at once."""
    here, there = two_mounts(rig, "rw")
    seed = random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    model = Changes(here, seed)
    for number in range(2000):
        kind, paths = model.next()
        what = f"seed {seed}, change {number}, {kind}"
        for path in dict.fromkeys(paths):
            look(there, model, path, what)
        other = os.path.join(model.random.choice(sorted(model.directories)), model.random.choice(NAMES))
        look(there, model, other, f"{what}: another")
        directory = os.path.dirname(model.random.choice([*paths, other]))
        equal(sorted(os.listdir(there / directory)), model.names_in(directory), f"{what}: names in {directory or 'the root'}")


@scenario(timeout=120, where="server")
def exact_both(rig):
    """Two mounts that change names in one directory at the same time neither stop each other nor see old names."""
    here, there = two_mounts(rig, "rw")
    (here / "shared").mkdir()
    failures, rounds = [], 150

    def work(own, other, number):
        try:
            for turn in range(rounds):
                name = f"{number} {turn}"
                write(own / "shared" / name, name.encode())
                os.rename(own / "shared" / name, own / "shared" / f"{name} moved")
                check(not os.path.exists(other / "shared" / name), f"{name} exists on the other mount")
                equal((other / "shared" / f"{name} moved").read_text(), name, "content on the other mount")
                if turn % 2:
                    os.unlink(own / "shared" / f"{name} moved")
                    check(not os.path.exists(other / "shared" / f"{name} moved"), f"{name} is still there")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(*ends, number))
               for number, ends in enumerate(((here, there), (there, here), (here, there), (there, here)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
    for point in (here, there):
        equal(len(os.listdir(point / "shared")), 4 * rounds // 2, f"names on {point.name}")
