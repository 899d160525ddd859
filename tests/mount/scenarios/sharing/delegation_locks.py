"""Locks under delegations: they cost no message while no other client uses the file, and exclude other clients, too:
after the recall of the delegation they are locks at the server.

The exports here have changed_by=clients.
"""

import errno
import signal
import subprocess
import time

import processes
from actors import Actor
from rig import check, equal, note, scenario

from scenarios.caching.delegations import Messages, await_exact, held, mount_two, write
from scenarios.caching.promises import LATE, RECALL, RECALLING, StoppedMount, timed
from .locks import _args

LOCKING = ("LOCK", "LOCKT", "LOCKU", "OPEN_OWNER", "CLOSE", "OPEN_DELEGATED", "OPEN_HANDLE", "DELEGRETURN", "OPEN_DOWNGRADE",
           "GETATTR_INLINE")


class Cast:
    """Processes with files open on mounts, which end with the block."""

    def __init__(self):
        self.actors = []

    def actor(self, path, flags="O_RDWR"):
        one = Actor()
        self.actors.append(one)
        one.must("open", "f", str(path), flags)
        return one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.actors:
            try:
                one.end()
            except (ProcessLookupError, ChildProcessError):
                pass


def mount_two_with(rig, names, arguments=()):
    """The files are there before: the close of a writer changes the delegation, and until the server has answered that,
    opens ask for none."""
    for name in names:
        (rig.export / name).write_bytes(b"0" * 100)
    return mount_two(rig, arguments)


def lock_here(cast, rig, path):
    """Locks of processes of one mount, which send nothing."""
    a, b = cast.actor(path), cast.actor(path)
    with Messages(rig) as messages:
        for kind in ("record", "ofd", "flock"):
            for _ in range(20):
                a.must(*_args(kind, "W", False))
                a.must(kind, "f", "U")
            a.must(*_args(kind, "R", False))
            b.must(*_args(kind, "R", False))
            b.refused(*_args(kind, "W", False))
            a.must(kind, "f", "U")
            b.must(*_args(kind, "W", False))
            a.begin(*_args(kind, "W", True))
            check(a.waits(0.05), f"{kind}: did not wait")
            b.must(kind, "f", "U")
            equal(a.answer(5), 0, f"{kind}: the lock after a wait")
            a.must(kind, "f", "U")
        # F_GETLK, and a wait in a circle
        a.must("record", "f", "W", 0, 10)
        b.must("record", "f", "W", 10, 10)
        equal(b.do("blocker", "f", "W", 0, 0), ["W", 0, 10, a.pid], "what F_GETLK reports")
        a.begin("record", "f", "W", 10, 1, True)
        check(a.waits(0.05), "did not wait")
        b.refused("record", "f", "W", 0, 1, True, error=errno.EDEADLK)
        b.must("record", "f", "U")
        equal(a.answer(5), 0, "the lock after the other process gave up")
        # The close of any descriptor of the file by the process, not by its child, releases record locks.
        a.must("fork")
        a.must("reap")
        b.refused("record", "f", "R")
        a.must("dup", "f", "dup")
        a.must("close", "dup")
        b.must("record", "f", "W")
        b.must("record", "f", "U")
        # An open file description keeps flock locks until its last descriptor is closed.
        a.must("flock", "f", "W")
        a.must("fork")
        a.must("close", "f")
        b.refused("flock", "f", "R")
        a.must("reap")
        check(processes.wait_until(lambda: b.do("flock", "f", "W") == 0, 5), "flock: held after the last close")
        b.must("flock", "f", "U")
    note(f"locks of one mount: {messages.sent}")
    equal({name: calls for name, calls in messages.sent.items() if name in LOCKING}, {}, "messages for locks")


@scenario(timeout=120, where="server")
def delegations_locks(rig):
    """Locks of the processes of one mount send nothing; another mount waits for them, and gets the lock when it is free."""
    kinds = ("record", "ofd", "flock")
    _, here, there = mount_two_with(rig, ["file", "shared"] + [f"file of {kind}" for kind in kinds])
    with Cast() as cast:
        lock_here(cast, rig, here / "file")
        count = held(rig, here)["local_locks"]
        note(f"delegations: {held(rig, here)}")
        check(count >= 60, f"{count} locks without a request")
        for kind in kinds:
            path = f"file of {kind}"
            holder, queued = cast.actor(here / path), cast.actor(here / path)
            before = held(rig, here)["recalls"]
            holder.must(*_args(kind, "W", False))
            queued.begin(*_args(kind, "W", True))
            check(queued.waits(0.05), f"{kind}: did not wait here")
            other = cast.actor(there / path)
            equal(held(rig, here)["recalls"], before + 1, "recalls")
            other.refused(*_args(kind, "R", False))
            other.begin(*_args(kind, "W", True))
            check(other.waits(), f"{kind}: did not wait there")
            holder.must("write", "f", "1", 0)
            holder.must(kind, "f", "U")
            equal(queued.answer(5), 0, f"{kind}: the first in the queue")
            check(other.waits(0.1), f"{kind}: two have the lock")
            queued.must("write", "f", "2", 1)
            queued.must(kind, "f", "U")
            equal(other.answer(5), 0, f"{kind}: the other mount")
            equal(other.do("read", "f")[:3], "120", "what was written under the lock")
            holder.refused(*_args(kind, "R", False))
    check_readers(rig, here, there)


def check_readers(rig, here, there):
    """Two mounts with read delegations hold read locks that the server does not know; a write lock waits for both."""
    with Cast() as cast:
        a, b = cast.actor(here / "shared", "O_RDONLY"), cast.actor(there / "shared", "O_RDONLY")
        with Messages(rig) as messages:
            a.must("flock", "f", "R")
            b.must("flock", "f", "R")
        equal({name: calls for name, calls in messages.sent.items() if name in LOCKING}, {}, "messages for read locks")
        c = cast.actor(there / "shared", "O_RDONLY")
        c.refused("flock", "f", "W")
        c.begin("flock", "f", "W", True)
        b.must("flock", "f", "U")
        check(c.waits(), "a write lock beside a read lock of another mount")
        a.must("flock", "f", "U")
        equal(c.answer(5), 0, "the write lock")
        a.refused("flock", "f", "R")


COUNT = """
import fcntl, os, sys, time
kind, rounds, delay = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
time.sleep(delay)
for path in sys.argv[4:]:
    descriptor = os.open(path, os.O_RDWR)
    for turn in range(rounds):
        lock = fcntl.flock if kind == "flock" else fcntl.lockf
        lock(descriptor, fcntl.LOCK_EX)
        number = int(os.pread(descriptor, 20, 0))
        os.pwrite(descriptor, b"%09d" % (number + 1), 0)
        lock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
"""


@scenario(timeout=120, where="server")
def delegations_locks_handed_over(rig):
    """Programs of two mounts count in files under locks. The second mount comes while the first has locks that the
    server does not know: no count is lost."""
    _, here, there = mount_two(rig)
    files, rounds = 10, 20
    for kind in ("flock", "record"):
        for number in range(files):
            write(here / f"{kind}{number}", b"%09d" % 0)
        programs = []
        for point, delay in ((here, 0), (here, 0), (there, 0.05)):
            paths = [point / f"{kind}{number}" for number in range(files)]
            programs.append(subprocess.Popen(["python3", "-c", COUNT, kind, str(rounds), str(delay), *paths],
                                             stdin=subprocess.DEVNULL))
        equal([program.wait(60) for program in programs], [0] * 3, "exit status")
        for number in range(files):
            equal(int((there / f"{kind}{number}").read_bytes()), 3 * rounds, f"count in {kind}{number}")
    note(f"delegations: {held(rig, here)}")


@scenario(timeout=120, where="server")
def delegations_locks_restart(rig):
    """Locks that the server does not know outlive its kill: the mount claims them before any other client has them."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting", "reclaimed from the restarted")
    server, here, there = mount_two_with(rig, ("write", "read", "other"))
    with Cast() as cast:
        a, b = cast.actor(here / "write"), cast.actor(here / "read", "O_RDONLY")
        c = cast.actor(there / "other")
        with Messages(rig) as messages:
            a.must("record", "f", "W", 0, 10)
            a.must("flock", "f", "W")
            b.must("ofd", "f", "R", 0, 10)
        equal({name: calls for name, calls in messages.sent.items() if name in LOCKING}, {}, "messages for locks")
        server.stop(signal.SIGKILL)
        server.start()
        c.must("open", "write", str(there / "write"))
        c.refused("record", "write", "R", 5, 1)
        c.refused("flock", "write", "R")
        c.must("open", "read", str(there / "read"))
        c.refused("ofd", "read", "W")
        a.must("record", "f", "U")
        a.must("flock", "f", "U")
        b.must("ofd", "f", "U")
        c.must("record", "write", "W", 5, 1)
        c.must("flock", "write", "W")
        c.must("ofd", "read", "W")


@scenario(timeout=120, where="server")
def delegations_locks_stopped(rig):
    """A mount that is stopped or killed keeps its locks for the recall time. When it runs again, they are lost, and the
    use of its files fails."""
    rig.expect("did not return a delegation", "could not be reclaimed", "no answer for", "ended all promises")
    _, here, there = mount_two_with(rig, ("stopped", "killed"), RECALLING)
    with Cast() as cast:
        a = cast.actor(here / "stopped")
        a.must("record", "f", "W")
        with StoppedMount(rig, here):
            start = time.monotonic()
            b = cast.actor(there / "stopped")
            b.must("record", "f", "W")
            took = time.monotonic() - start
            note(f"a lock that a stopped mount holds: {took:.2f} s")
            check(took < RECALL + 2 * LATE, f"the lock took {took:.2f} s")
        check(processes.wait_until(lambda: a.do("record", "f", "R", 0, 1) == errno.EIO, 10 * rig.slowness),
              "the mount that lost its lock does not report it")
        a.end()
        cast.actors.remove(a)
        await_exact(rig, here)
        before = held(rig, here)["local_locks"]
        c = cast.actor(here / "killed")
        c.must("flock", "f", "W")
        equal(held(rig, here)["local_locks"], before + 1, "locks without a request")
        process = rig.mounted.pop(here)
        process.kill()
        process.wait()
        took = timed(lambda: cast.actor(there / "killed").must("flock", "f", "W"))
        check(took < RECALL + 2 * LATE, f"the lock took {took:.2f} s")
        c.end()
        cast.actors.remove(c)
    rig.run(["umount", "-l", str(here)], cwd="/")
