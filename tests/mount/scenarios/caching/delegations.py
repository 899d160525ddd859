"""Opens under delegations: they cost no message while no other client uses the file, and end before another changes it.

The exports here have changed_by=clients, except that of delegations_local_programs.
"""

import errno
import json
import mmap
import os
import random
import signal
import subprocess
import threading
import time

import processes
import proxy
from rig import check, equal, note, scenario

from scenarios.recovery.failures import mount_through
from .promises import LATE, RECALL, RECALLING, StoppedMount, status, timed
from .speed import procedures

OPENING = ("OPEN", "OPEN_HANDLE", "OPEN_DELEGATED", "OPEN_EXECUTE", "OPEN_OWNER", "OPEN_DOWNGRADE", "CLOSE", "DELEGRETURN",
           "READ_INLINE", "READ_DIRECT")
READING = ("READ_INLINE", "READ_DIRECT")
MANY = 9000  # files: more than the 8,192 unused delegations of a mount


def serve(rig, arguments=()):
    return rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"], arguments)


def await_exact(rig, point):
    """Waits until the server gives promises to the mount: from then on it grants delegations, too."""
    def exact():
        os.stat(point)
        return status(rig, point)["caching"] == "exact"
    check(processes.wait_until(exact, 10 * rig.slowness), f"{point.name} has no promises of the server")


def mount(rig, server, options="", point=None):
    point = rig.mount(server, options, point=point)
    await_exact(rig, point)
    return point


def mount_two(rig, arguments=()):
    """Returns the server and both mounts of one export."""
    server = serve(rig, arguments)
    other = rig.base / "other"
    other.mkdir()
    return server, mount(rig, server), mount(rig, server, point=other)


def write(path, data, flags=os.O_CREAT | os.O_TRUNC):
    descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def held(rig, point):
    return status(rig, point)["delegations"]


class Messages:
    """Counts what a block sends, except what the clock sends. The first stat after a read asks for the time of access."""

    def __init__(self, rig):
        self.rig = rig
        self.sent = {}

    def __enter__(self):
        time.sleep(0.2)  # requests that may be delayed have left
        self.before = procedures(self.rig)
        return self

    def __exit__(self, *_):
        time.sleep(0.2)
        after = procedures(self.rig)
        self.sent = {name: calls - self.before.get(name, 0) for name, calls in after.items()
                     if calls > self.before.get(name, 0) and name not in ("NULL", "COMMIT", "REGISTER_CRED")}

    def of_opens(self):
        """The messages of opens, closes and reads. The kernel may drop a page or a file that it had, so few reads are none."""
        few = {name for name in READING if self.sent.get(name, 0) <= 5}
        return {name: calls for name, calls in self.sent.items() if name in OPENING and name not in few}


@scenario(timeout=120, where="server")
def delegations_messages(rig):
    """Files that were opened once are opened, read and closed again without a message; nodelegations sends them."""
    server = serve(rig)
    tree = rig.export / "tree"
    for directory in range(5):
        (tree / f"d{directory}").mkdir(parents=True)
        for number in range(20):
            (tree / f"d{directory}" / f"f{number}").write_bytes(b"content of a file\n" * 100)
    mount(rig, server)
    grep = ["grep", "-rc", "content", "tree"]
    for turn in range(3):
        with Messages(rig) as messages:
            rig.run(["sh", "-c", 'exec "$@" > /dev/null', "sh", *grep], cwd=rig.mnt)
        note(f"grep -r, turn {turn + 1}: {messages.sent}")
        if turn > 0:
            equal(messages.of_opens(), {}, "opens, closes and reads of grep -r again")
    with Messages(rig) as messages:
        for _ in range(10):
            equal(read(rig.mnt / "tree/d0/f0"), b"content of a file\n" * 100, "content")
    equal(messages.of_opens(), {}, "opens, closes and reads of cat again")

    # A file that is made here: the close of its writer changes the delegation, in place of a CLOSE.
    write(rig.mnt / "first", b"")  # the mount requests the default ACL of the directory once
    with Messages(rig) as messages:
        write(rig.mnt / "made", b"made here" * 1000)
    note(f"a new file: {messages.sent}")
    equal(messages.of_opens(), {"OPEN": 1, "OPEN_DOWNGRADE": 1}, "opens and closes of a new file")
    with Messages(rig) as messages:
        equal(read(rig.mnt / "made"), b"made here" * 1000, "content")
    # The kernel drops its pages when it sees the time of its own write.
    equal({name for name in messages.of_opens() if "READ" not in name}, set(), "opens and closes of a read after a write")
    with Messages(rig) as messages:
        write(rig.mnt / "made", b" and more", os.O_APPEND)
    note(f"an append: {messages.sent}")
    equal(read(rig.mnt / "made"), b"made here" * 1000 + b" and more", "content after an append")
    # Rights: another user, and a change of the mode.
    os.chmod(rig.mnt / "made", 0o600)
    done = subprocess.run(["cat", rig.mnt / "made"], user=1234, group=1234, extra_groups=[], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
    check(done.returncode != 0 and b"ermission" in done.stdout, f"another user reads a file of mode 0600: {done.stdout}")
    # As tar does: the rights that the owner gives to others do not concern opens by the owner.
    with Messages(rig) as messages:
        descriptor = os.open(rig.mnt / "unpacked", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.fchown(descriptor, 0, 1234)
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)
        equal(read(rig.mnt / "unpacked"), b"", "content")
    equal(messages.of_opens(), {"OPEN": 1, "OPEN_DOWNGRADE": 1}, "opens and closes of a file with new rights")
    os.chmod(rig.mnt / "unpacked", 0)
    equal(read(rig.mnt / "unpacked"), b"", "what root reads of a file of mode 0")
    equal(os.stat(rig.mnt / "unpacked").st_mode & 0o777, 0, "mode")
    report = held(rig, rig.mnt)
    note(f"delegations: {report}")
    check(report["read"] > 100 and report["local_opens"] > 100, f"few delegations: {report}")
    equal(report["recalls"], 0, "recalls")
    rig.umount()

    mount(rig, server, "nodelegations")
    read(rig.mnt / "tree/d0/f0")
    with Messages(rig) as messages:
        read(rig.mnt / "tree/d0/f0")
    equal(messages.sent.get("OPEN_HANDLE", 0), 1, "OPEN_HANDLEs with nodelegations")
    equal(held(rig, rig.mnt)["read"], 0, "delegations with nodelegations")


@scenario(timeout=120, where="server")
def delegations_recalled(rig):
    """The next open, and open descriptors, see a file that another mount writes, truncates, removes, renames or makes
    unreadable: with the file closed, open for reading, mapped, and open for writing here."""
    server, here, there = mount_two(rig)

    def write_there(path):
        write(path, b"other text", os.O_TRUNC)

    def truncate_there(path):
        os.truncate(path, 3)

    def replace_there(path):
        write(path.with_suffix(".new"), b"replaced")
        os.rename(path.with_suffix(".new"), path)

    def append_there(path):
        write(path, b"!", os.O_APPEND)

    number = 0
    for change, after in ((write_there, b"other text"), (truncate_there, b"the"), (replace_there, b"replaced"),
                          (append_there, b"the first text!")):
        for use in ("closed", "reading", "mapped", "writing"):
            number += 1
            name = f"file{number}"
            what = f"{change.__name__}, {use} here"
            write(here / name, b"the first text")
            equal(read(here / name), b"the first text", "content before")
            descriptor = -1
            if use != "closed":
                descriptor = os.open(here / name, os.O_RDWR if use == "writing" else os.O_RDONLY)
                os.pread(descriptor, 100, 0)
            mapped = mmap.mmap(descriptor, 3, prot=mmap.PROT_READ) if use == "mapped" else None
            took = timed(change, there / name)
            check(took < LATE, f"{what} took {took:.2f} s")
            equal(read(here / name), after, f"content after {what}")
            equal(read(there / name), after, f"content there after {what}")
            if use == "writing":  # the open still writes, to the file that it had
                os.pwrite(descriptor, b"T", 0)
                os.fsync(descriptor)
                expected = after if change is replace_there else b"T" + after[1:]
                equal(read(there / name), expected, f"content after a write here, {what}")
            if mapped is not None:
                mapped.close()
            if descriptor >= 0:
                os.close(descriptor)
    for call, error in ((os.unlink, errno.ENOENT), (lambda path: os.chmod(path, 0), errno.EACCES)):
        number += 1
        write(here / f"file{number}", b"text")
        os.chmod(here / f"file{number}", 0o644)

        def look(path=here / f"file{number}"):
            return subprocess.run(["cat", path], user=1234, group=1234, extra_groups=[], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False).returncode
        equal((look(), look()), (0, 0), "cat by another user")
        descriptor = os.open(here / f"file{number}", os.O_RDONLY)
        took = timed(call, there / f"file{number}")
        check(took < LATE, f"the call took {took:.2f} s")
        check(look() != 0, f"another user still reads the file: {errno.errorcode[error]}")
        equal(os.pread(descriptor, 10, 0), b"text", "data of a descriptor that was open")
        os.close(descriptor)
    report = held(rig, here)
    note(f"delegations: {report}")
    check(report["recalls"] >= 15, f"recalls: {report}")

    def ask_server(what):
        return json.loads(rig.run([rig.bin / "dafsctl", "server", what, "--json", "--socket", server.socket], cwd="/"))

    report = ask_server("status")["delegations"]
    check(report["recalled"] >= 15 and report["recall_longest_us"] >= report["recall_mean_us"] > 0 and
          report["revoked"] == 0, f"the server's recalls: {report}")
    recalls = [client["recalls"]["count"] for client in ask_server("clients")["clients"]
               if client["mount_point"] == str(here)]
    check(recalls and recalls[0] >= 15, f"the server's recalls from {here}: {recalls}")


@scenario(timeout=240, where="server")
def delegations_alternate(rig):
    """Two mounts write and read files in turn at random, by writes, appends, truncations and renames: every open reads
    what was written last."""
    _, here, there = mount_two(rig)
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    dice = random.Random(seed)
    content = {}
    for turn in range(3000 if rig.full else 600):
        name = f"file{dice.randrange(300)}"
        path = dice.choice([here, there]) / name
        action = dice.choice(["write", "append", "truncate", "replace", "read", "read", "read", "unlink"])
        if action in ("append", "truncate", "unlink") and name not in content:
            action = "write"
        data = f"turn {turn}".encode()
        if action == "write":
            write(path, data)
            content[name] = data
        elif action == "append":
            write(path, data, os.O_APPEND)
            content[name] += data
        elif action == "truncate":
            os.truncate(path, len(content[name]) // 2)
            content[name] = content[name][:len(content[name]) // 2]
        elif action == "replace":
            write(path.with_name("new"), data)
            os.rename(path.with_name("new"), path)
            content[name] = data
        elif action == "unlink":
            os.unlink(path)
            del content[name]
        for point in (here, there):
            if name in content:
                equal(read(point / name), content[name], f"{name} on {point.name} after turn {turn}, {action}")
            else:
                check(not os.path.exists(point / name), f"{name} is there on {point.name} after turn {turn}")
    note(f"delegations here: {held(rig, here)}, there: {held(rig, there)}")


@scenario(timeout=120, where="server")
def delegations_together(rig):
    """Programs of two mounts append lines to one file under a lock, while others read it: no line is lost."""
    _, here, there = mount_two(rig)
    write(here / "log", b"")
    script = ("import fcntl, os, sys\n"
              "for number in range(60):\n"
              "    with open(sys.argv[1], 'r+b', buffering=0) as log:\n"
              "        fcntl.flock(log, fcntl.LOCK_EX)\n"
              "        size = len(log.read())\n"
              "        log.write(b'%s %d\\n' % (sys.argv[2].encode(), number))\n")
    writers = [subprocess.Popen(["python3", "-c", script, point / "log", f"{point.name}{number}"],
                                stdin=subprocess.DEVNULL) for point in (here, there) for number in range(2)]
    while any(writer.poll() is None for writer in writers):
        read(here / "log")
        time.sleep(0.01)
    equal([writer.wait(60) for writer in writers], [0] * 4, "exit status of the writers")
    lines = read(there / "log").splitlines()
    equal(len(lines), 240, "lines")
    equal(len(set(lines)), 240, "different lines")


@scenario(timeout=90, where="server")
def delegations_stopped(rig):
    """A mount that is stopped delays a writer by at most the recall time. When it runs again, no open reads old data."""
    rig.expect("did not return a delegation", "could not be reclaimed", "no answer for", "ended all promises")
    _, here, there = mount_two(rig, RECALLING)
    for name in ("closed", "open"):
        write(here / name, b"old")
        equal(read(here / name), b"old", "content")
    descriptor = os.open(here / "open", os.O_RDONLY)
    with StoppedMount(rig, here):
        for name in ("closed", "open"):
            took = timed(write, there / name, b"new")
            note(f"a write to a file that a stopped mount holds: {took:.2f} s")
            check(took < RECALL + 2 * LATE, f"the write took {took:.2f} s")
    for name in ("closed", "open"):
        equal(read(here / name), b"new", f"{name}, after the mount runs again")
    try:
        check(os.pread(descriptor, 10, 0) in (b"old", b"new"), "data of the descriptor")  # the kernel may have it
    except OSError as error:
        equal(error.errno, errno.EIO, "the error of a descriptor")
    os.close(descriptor)


@scenario(timeout=90, where="server")
def delegations_killed(rig):
    """A mount that was killed delays a writer by at most the recall time."""
    rig.expect("did not return a delegation")
    _, here, there = mount_two(rig, RECALLING)
    write(here / "file", b"old")
    read(here / "file")
    process = rig.mounted.pop(here)
    process.kill()
    process.wait()
    took = timed(write, there / "file", b"new")
    check(took < RECALL + 2 * LATE, f"the write took {took:.2f} s")
    rig.run(["umount", str(here)], cwd="/")
    equal(read(there / "file"), b"new", "content")


@scenario(timeout=120, where="server", loopback=True)
def delegations_cut_off(rig):
    """A mount that is cut off keeps its open files, and reads what was written meanwhile, when it is back."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting", "did not return a delegation",
               "no answer for", "ended all promises", "could not be reclaimed")
    server = serve(rig, RECALLING)
    other = rig.base / "other"
    other.mkdir()
    there = mount(rig, server)
    with proxy.Proxy(server.port) as relay:
        here = mount_through(rig, relay, server, point=other)
        await_exact(rig, here)
        for name in ("short", "long"):
            write(here / name, b"old")
            equal(read(here / name), b"old", "content")
        descriptor = os.open(here / "short", os.O_RDWR)
        relay.break_after(proxy.TO_SERVER, 1, proxy.CUT)  # the next segment
        os.pwrite(descriptor, b"OLD", 0)
        equal(os.pread(descriptor, 10, 0), b"OLD", "data after a cut")
        os.close(descriptor)
        await_exact(rig, here)
        took = timed(write, there / "short", b"new")
        check(took < LATE, f"the write took {took:.2f} s")
        equal(read(here / "short"), b"new", "content after a cut")
        read(here / "long")
        relay.stall()
        took = timed(write, there / "long", b"new")
        check(took < RECALL + 2 * LATE, f"the write took {took:.2f} s")
        relay.release()
        equal(read(here / "long"), b"new", "content after the network was down")
        rig.umount(here)


@scenario(timeout=120, where="server")
def delegations_server_killed(rig):
    """The server is killed while files are open without its knowledge: they stay open, also without a name."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting", "reclaimed from the restarted")
    server, here, there = mount_two(rig)
    for name in ("read", "written", "removed"):
        write(here / name, b"before")
        read(here / name)
    reader = os.open(here / "read", os.O_RDONLY)
    writer = os.open(here / "written", os.O_RDWR)
    removed = os.open(here / "removed", os.O_RDONLY)
    os.unlink(here / "removed")
    server.stop(signal.SIGKILL)
    server.start()
    os.pwrite(writer, b"after!", 0)
    os.fsync(writer)
    equal(os.pread(writer, 10, 0), b"after!", "data of the writer")
    equal(os.pread(reader, 10, 0), b"before", "data of the reader")
    equal(os.pread(removed, 10, 0), b"before", "data of the file without a name")
    for descriptor in (reader, writer, removed):
        os.close(descriptor)
    equal(read(there / "written"), b"after!", "content on the other mount")
    write(there / "read", b"changed")
    equal(read(here / "read"), b"changed", "content after a change by the other mount")
    await_exact(rig, here)
    write(there / "read", b"changed again")
    equal(read(here / "read"), b"changed again", "content after another change")


@scenario(timeout=120, where="server")
def delegations_local_programs(rig):
    """With changed_by=anyone, what a program of the server's machine writes to a file that a mount has delegated is seen
    by the next open. A mount that is stopped delays the program by at most the recall time."""
    rig.expect("did not return a delegation", "could not be reclaimed", "no answer for", "ended all promises")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"], RECALLING)
    rig.mount(server)
    check(processes.wait_until(lambda: os.stat(rig.mnt) and status(rig, rig.mnt)["caching"] == "bounded", 10 * rig.slowness),
          "the mount has no promises of the server")

    def replace(path):
        write(path.with_suffix(".new"), b"replaced")
        os.rename(path.with_suffix(".new"), path)

    for name, change, after in (("written", lambda path: write(path, b"new"), b"new"),
                                ("appended", lambda path: write(path, b"!", os.O_APPEND), b"old!"),
                                ("truncated", lambda path: os.truncate(path, 1), b"o"),
                                ("replaced", replace, b"replaced"),
                                ("open", lambda path: os.truncate(path, 2), b"ol")):
        write(rig.export / name, b"old")
        equal(read(rig.mnt / name), b"old", "content before")
        with Messages(rig) as messages:
            equal(read(rig.mnt / name), b"old", "content before")
        equal(messages.of_opens(), {}, f"opens and closes of {name} again")
        descriptor = os.open(rig.mnt / name, os.O_RDONLY) if name == "open" else -1
        took = timed(change, rig.export / name)
        check(took < LATE, f"{name}: the local program waited for {took:.2f} s")
        equal(read(rig.mnt / name), after, f"content after the file was {name}")
        if descriptor >= 0:
            equal(os.pread(descriptor, 10, 0), after, "data of a descriptor that was open")
            os.close(descriptor)

    # This mount's own changes of a file that it has delegated.
    write(rig.export / "own", b"old")
    for change, after in ((lambda path: write(path, b"!", os.O_APPEND), b"old!"),
                          (lambda path: os.truncate(path, 2), b"ol"), (lambda path: write(path, b"x"), b"x")):
        read(rig.mnt / "own")
        took = timed(change, rig.mnt / "own")
        check(took < LATE, f"a change by the mount took {took:.2f} s")
        equal(read(rig.export / "own"), after, "content at the server")
        equal(read(rig.mnt / "own"), after, "content on the mount")

    for number in range(1000):
        write(rig.export / f"many{number}", b"old")
        read(rig.mnt / f"many{number}")
    report = held(rig, rig.mnt)
    note(f"delegations: {report}")
    check(report["read"] >= 1000, f"few delegations: {report}")
    with StoppedMount(rig, rig.mnt):
        took = timed(write, rig.export / "many0", b"new")
        note(f"a local program whose file a stopped mount holds waited for {took:.2f} s")
        check(took < RECALL + 2 * LATE, f"the local program waited for {took:.2f} s")
    for number in range(1000):
        write(rig.export / f"many{number}", b"new")
    for number in range(1000):
        equal(read(rig.mnt / f"many{number}"), b"new", f"content of file {number}")


@scenario(timeout=240, where="server")
def delegations_many(rig):
    """Files beyond the most that a mount keeps delegations of; then rm -r, which leaves nothing behind at the server."""
    server = serve(rig)
    mount(rig, server)
    directory = rig.mnt / "many"
    for number in range(MANY):
        if number % 500 == 0:
            (directory / f"d{number // 500}").mkdir(parents=True)
        write(directory / f"d{number // 500}" / f"f{number}", b"text")
    report = held(rig, rig.mnt)
    note(f"after {MANY} new files: {report}")
    check(processes.wait_until(lambda: 8000 <= held(rig, rig.mnt)["read"] <= 8192, 10), f"delegations: {report}")
    with Messages(rig) as messages:
        subprocess.run(["rm", "-r", directory], check=True, stdin=subprocess.DEVNULL)
    note(f"rm -r: {messages.sent}")
    check(messages.sent.get("CLOSE", 0) == 0, "rm -r closes files")
    check(processes.wait_until(lambda: held(rig, rig.mnt)["read"] == 0, 10), f"left: {held(rig, rig.mnt)}")
    orphans = rig.export / ".dafsd-orphans"
    equal(sorted(os.listdir(orphans)) if orphans.exists() else [], [], "files that the server keeps")


@scenario(timeout=90, where="server")
def delegations_unlinked(rig):
    """A file that is removed while it is open stays readable and writable, and is gone after its last close."""
    _, here, there = mount_two(rig)
    orphans = rig.export / ".dafsd-orphans"

    def kept():
        return os.listdir(orphans) if orphans.exists() else []

    for remover in (here, there):
        write(here / "file", b"content")
        read(here / "file")
        descriptors = [os.open(here / "file", os.O_RDONLY), os.open(here / "file", os.O_RDWR)]
        os.unlink(remover / "file")
        check(not os.path.exists(here / "file"), "the name still exists")
        os.pwrite(descriptors[1], b"C", 0)
        equal(os.pread(descriptors[0], 10, 0), b"Content", "data without a name")
        for descriptor in descriptors:
            os.close(descriptor)
        check(processes.wait_until(lambda: not kept(), 5), f"kept by the server: {kept()}")
    # rename over a file that is open here
    write(here / "old", b"old")
    write(here / "new", b"new")
    with open(here / "old", "rb") as file:
        os.rename(here / "new", here / "old")
        equal(file.read(), b"old", "data of the replaced file")
    equal(read(here / "old"), b"new", "content of the name")
    check(processes.wait_until(lambda: not kept(), 5), f"kept by the server: {kept()}")
    # without a name from the start
    with open(os.open(here, os.O_TMPFILE | os.O_RDWR), "r+b") as file:
        file.write(b"text")
        file.seek(0)
        equal(file.read(), b"text", "data of O_TMPFILE")
    check(processes.wait_until(lambda: not kept(), 5), f"kept by the server: {kept()}")


@scenario(timeout=120, where="server")
def delegations_raced(rig):
    """One mount reads files in a loop while another rewrites them: every read returns one of the versions, none older
    than the version that was complete when the read began."""
    _, here, there = mount_two(rig)
    versions = {}
    for number in range(4):
        write(there / f"file{number}", b"0000000000")
        versions[number] = 0
    end = time.monotonic() + (30 if rig.full else 8)
    failures = []

    def read_all():
        while time.monotonic() < end and not failures:
            for number in range(4):
                before = versions[number]
                try:
                    data = read(here / f"file{number}")
                except OSError as error:
                    failures.append(f"file{number}: {error}")
                    return
                if data and int(data) < before:
                    failures.append(f"file{number} has version {int(data)}, {before} was complete")

    readers = [threading.Thread(target=read_all, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    turn = 0
    while time.monotonic() < end and not failures:
        turn += 1
        number = turn % 4
        data = b"%010d" % turn
        if turn % 3:
            write(there / f"file{number}", data, 0)
        else:
            write(there / "new", data)
            os.rename(there / "new", there / f"file{number}")
        versions[number] = turn
        time.sleep(0.02 if turn % 16 else 0.5)
    for reader in readers:
        reader.join(30)
    equal(failures, [], "failures")
    note(f"{turn} versions; delegations here: {held(rig, here)}")


@scenario(timeout=60, where="server")
def delegations_unmounted(rig):
    """An unmount returns what a mount holds: the next writer of another mount does not wait."""
    _, here, there = mount_two(rig)
    for number in range(100):
        write(here / f"file{number}", b"text")
        read(here / f"file{number}")
    check(held(rig, here)["read"] >= 100, "few delegations")
    rig.umount(here)
    took = timed(lambda: [write(there / f"file{number}", b"new") for number in range(100)])
    check(took < LATE + 2, f"100 writes took {took:.2f} s")


@scenario(timeout=60, where="server")
def delegations_of_removed_files(rig):
    """A file that is open for reading loses its name, and is opened again by /proc/self/fd for writing: that ends its
    delegation while the first open becomes one at the server. No open may be lost, since nothing else keeps the file."""
    rig.mount(rig.serve([f"/data={rig.export},rw,no_root_squash"]))
    check(processes.wait_until(lambda: os.stat(rig.mnt) and status(rig, rig.mnt)["caching"] == "bounded", 10 * rig.slowness),
          "the mount has no promises of the server")
    failed = []

    def run(number):
        chance = random.Random(number)
        for i in range(400 if rig.full else 40):
            path = rig.mnt / f"{number}-{i}"
            write(path, b"content")
            descriptor = os.open(path, os.O_RDONLY)
            os.unlink(path)
            try:
                for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
                    os.close(os.open(f"/proc/self/fd/{descriptor}", flags))
                    time.sleep(chance.choice((0, 0, 0.002, 0.01)))
                equal(os.pread(descriptor, 10, 0), b"content", "data of a descriptor of a removed file")
            except OSError as error:
                failed.append(f"file {i} of thread {number}: {error}")
            os.close(descriptor)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failed, [], "opens of removed files that failed")
