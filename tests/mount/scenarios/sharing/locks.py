"""Locks: flock, record locks and OFD locks, between two mounts of one export and programs on the server."""

import errno
import os
import signal
import sqlite3
import time

import processes
from actors import Actor, blocker, flock, ofd, record
from rig import check, equal, scenario


class Stage:
    """Two mounts of one export, and the exported directory. Every actor has "f" of its place open."""

    def __init__(self, rig, options=""):
        self.rig = rig
        self.server = rig.serve()
        (rig.export / "f").write_bytes(b"0" * 100)
        (rig.export / "g").write_bytes(b"0" * 100)
        self.second = rig.base / "second"
        self.second.mkdir()
        rig.mount(self.server, options)
        rig.mount(self.server, options, point=self.second)
        self.places = {"one": rig.mnt, "two": self.second, "server": rig.export}
        self.cast = []

    def actor(self, place, name="f"):
        one = Actor()
        self.cast.append(one)
        one.must("open", "f", str(self.places[place] / name))
        return one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.cast:
            try:
                one.end()
            except (ProcessLookupError, ChildProcessError):
                pass


@scenario(timeout=120, where="server", variants=True)
def locks_seen(rig):
    """Every kind of lock is seen by the other mount, by the same mount and by programs on the server."""
    with Stage(rig) as stage:
        for kind in ("record", "ofd", "flock"):
            for holder in ("one", "server"):
                for other in ("one", "two", "server"):
                    _exclude(stage, kind, holder, other)
        _ranges(stage)
        _spaces(stage)
        _rights(stage)


def _exclude(stage, kind, holder, other):
    a, b = stage.actor(holder), stage.actor(other)
    where = f"{kind}, held at {holder}, asked at {other}"
    for first, second, fits in (("W", "W", False), ("W", "R", False), ("R", "W", False), ("R", "R", True)):
        a.must(kind, "f", first)
        found = b.do(kind, "f", second)
        equal(found, 0 if fits else errno.EAGAIN, f"{where}: {second} beside {first}")
        b.must(kind, "f", "U")
        a.must(kind, "f", "U")
    a.must(kind, "f", "W")
    a.end()  # as at exit: every lock is released
    stage.cast.remove(a)
    check(processes.wait_until(lambda: b.do(kind, "f", "W") == 0, 5), f"{where}: still held after the exit")
    b.must(kind, "f", "U")
    b.end()
    stage.cast.remove(b)


def _ranges(stage):
    a, b, local = stage.actor("one"), stage.actor("two"), stage.actor("server")
    a.must("record", "f", "W", 0, 100)
    a.must("record", "f", "R", 40, 20)
    a.must("record", "f", "U", 90, 10)
    for other in (b, local):
        equal(other.do("blocker", "f", "W", 0, 0)[:3], ["W", 0, 40], "the first lock in the way")
        equal(other.do("blocker", "f", "W", 40, 1)[:3], ["R", 40, 20], "a downgraded part")
        equal(other.do("blocker", "f", "R", 45, 10), None, "readers share")
        equal(other.do("blocker", "f", "W", 90, 0), None, "an unlocked part")
    b.must("record", "f", "R", 41, 1)
    b.must("record", "f", "W", 200, 0)  # beyond the end of the file, to the end of all
    equal(a.do("blocker", "f", "W", 1 << 40, 1)[:3], ["W", 200, 0], "a lock to the end")
    equal(a.do("blocker", "f", "W", 300, 1)[3], 0, "the process of another machine")
    same = stage.actor("one")
    equal(same.do("blocker", "f", "W", 0, 1), ["W", 0, 40, a.pid], "the holder's process, on its own mount")
    a.refused("record", "f", "W", 41, 1)
    for one in (a, b, same, local):
        one.end()
        stage.cast.remove(one)


def _spaces(stage):
    a, b = stage.actor("one"), stage.actor("two")
    a.must("flock", "f", "W")
    b.must("record", "f", "W")
    b.refused("flock", "f", "R")
    a.refused("record", "f", "R")
    a.must("open", "read-only", str(stage.places["one"] / "g"), "O_RDONLY")
    a.must("flock", "read-only", "W")  # as on Linux, for any descriptor
    a.refused("record", "read-only", "W", error=errno.EBADF)
    # The protocol locks regular files: a directory is this machine's own.
    for one, place in ((a, "one"), (b, "two")):
        one.must("open", "directory", str(stage.places[place]), "O_RDONLY")
        one.must("flock", "directory", "W")
    a.must("open", "again", str(stage.places["one"]), "O_RDONLY")
    a.refused("flock", "again", "R")
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


def _rights(stage):
    """A program with a descriptor can lock by it, even if the file's mode no longer lets the program open it."""
    os.chmod(stage.places["one"], 0o777)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(1000)
            os.setuid(1000)
            descriptor = os.open(stage.places["one"] / "shut", os.O_CREAT | os.O_RDWR, 0o444)
            os.fchmod(descriptor, 0)
            status = record(descriptor, "W") or ofd(descriptor, "U") or flock(descriptor, "W")
        finally:
            os._exit(status)
    equal(os.waitpid(child, 0)[1], 0, "locks of a file that its owner cannot open any more")


@scenario(timeout=120, where="server", variants=True)
def locks_wait(rig):
    """Waiters get the lock when it is free, in the order they came; a signal or a kill ends a wait.
    Shows DAFS-4.4.1.2-16 (blocking types: dafsd keeps an order for them only)."""
    with Stage(rig) as stage:
        for kind in ("record", "ofd", "flock"):
            _wait(stage, kind)
            _interrupt(stage, kind)
        _order(stage)


def _args(kind, what, wait):
    return (kind, "f", what, wait) if kind == "flock" else (kind, "f", what, 0, 0, wait)


def _wait(stage, kind):
    for holder, waiter in (("one", "two"), ("one", "one"), ("server", "one"), ("one", "server")):
        a, b = stage.actor(holder), stage.actor(waiter)
        a.must(*_args(kind, "W", False))
        b.begin(*_args(kind, "W", True))
        check(b.waits(), f"{kind}: {waiter} did not wait for {holder}")
        start = time.monotonic()
        a.must(kind, "f", "U")
        equal(b.answer(5), 0, f"{kind}: wait of {waiter} for {holder}")
        late = time.monotonic() - start
        check(late < 0.1 + 0.5 * stage.rig.slowness, f"{kind}: {waiter} got it from {holder} after {late:.2f} s")
        a.refused(*_args(kind, "R", False))
        for one in (a, b):
            one.end()
            stage.cast.remove(one)


def _interrupt(stage, kind):
    a, b, c = stage.actor("one"), stage.actor("two"), stage.actor("two")
    a.must(*_args(kind, "W", False))
    b.must("alarm", 0.3)
    b.begin(*_args(kind, "W", True))
    equal(b.answer(5), errno.EINTR, f"{kind}: SIGALRM")
    # A killed waiter leaves neither a lock nor a place in the queue.
    b.begin(*_args(kind, "W", True))
    check(b.waits(), f"{kind}: did not wait")
    start = time.monotonic()
    b.end()
    stage.cast.remove(b)
    check(time.monotonic() - start < 2, f"{kind}: a waiter took {time.monotonic() - start:.1f} s to be killed")
    a.must(kind, "f", "U")
    start = time.monotonic()
    c.begin(*_args(kind, "W", True))
    equal(c.answer(5), 0, f"{kind}: after a waiter was killed")
    check(time.monotonic() - start < 1, f"{kind}: {time.monotonic() - start:.1f} s after a waiter was killed")
    for one in (a, c):
        one.end()
        stage.cast.remove(one)


def _order(stage):
    holder = stage.actor("one")
    holder.must("record", "f", "W")
    queue = [stage.actor(place) for place in ("two", "one", "two", "two", "one")]
    for one in queue:
        one.begin("record", "f", "W", 0, 0, True)
        check(one.waits(0.3), "a waiter did not wait")
    holder.must("record", "f", "U")
    for number, one in enumerate(queue):
        equal(one.answer(5), 0, f"waiter {number}")
        for later in queue[number + 1:]:
            check(later.waits(0.02), f"a later waiter came before waiter {number} was done")
        one.must("record", "f", "U")
    for one in (holder, *queue):
        one.end()
        stage.cast.remove(one)


@scenario(timeout=120, where="server", variants=True)
def locks_end(rig):
    """Record locks end with any close by their process, OFD and flock locks with the last descriptor and no earlier."""
    with Stage(rig) as stage:
        for other in ("one", "two", "server"):
            _record_closes(stage, other)
            for kind in ("ofd", "flock"):
                _description_closes(stage, kind, other)
        _threads_and_children(stage)


def _gone(one, kind):
    return processes.wait_until(lambda: one.do(kind, "f", "W") == 0, 5) and one.do(kind, "f", "U") == 0


def _record_closes(stage, other):
    a, b = stage.actor("one"), stage.actor(other)
    path = str(stage.places["one"] / "f")
    for flags in ("O_RDWR", "O_RDONLY"):
        a.must("record", "f", "W", 0, 10)
        a.must("open", "again", path, flags)
        b.refused("record", "f", "W")
        a.must("close", "again")
        b.must("record", "f", "W")  # at once: close(2) waits for it
        b.must("record", "f", "U")
    a.must("record", "f", "W")
    a.must("fork")
    a.must("dup", "f", "dup")
    b.refused("record", "f", "R")
    a.must("reap")  # a child's close is not its parent's
    b.refused("record", "f", "R")
    a.must("close", "dup")
    b.must("record", "f", "W")
    b.must("record", "f", "U")
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


def _description_closes(stage, kind, other):
    a, b = stage.actor("one"), stage.actor(other)
    a.must("open", "again", str(stage.places["one"] / "f"))
    a.must(kind, "f", "W")
    a.refused(kind, "again", "W")  # another description, though the same process
    a.must("close", "again")
    b.refused(kind, "f", "R")
    a.must("dup", "f", "dup")
    a.must("close", "f")
    b.refused(kind, "f", "R")
    a.must("fork")
    a.must("close", "dup")
    b.refused(kind, "f", "R")  # the child still has it
    a.must("reap")
    check(_gone(b, kind), f"{kind}: held after the last close, seen from {other}")
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


def _threads_and_children(stage):
    path = str(stage.places["one"] / "f")
    other = stage.actor("two")
    descriptor = os.open(path, os.O_RDWR)
    equal(record(descriptor, "W"), 0, "record lock")
    child = os.fork()
    if child == 0:  # has the descriptor, not the lock
        found = blocker(descriptor)
        os._exit(0 if record(descriptor, "R") == errno.EAGAIN and found[3] == os.getppid() else 1)
    equal(os.waitpid(child, 0)[1], 0, "a child and its parent's record lock")
    other.refused("record", "f", "R")
    os.close(descriptor)
    other.must("record", "f", "W")
    other.must("record", "f", "U")
    descriptor = os.open(path, os.O_RDWR)
    equal(ofd(descriptor, "W"), 0, "OFD lock")
    child = os.fork()
    if child == 0:  # has both
        os._exit(0 if ofd(descriptor, "R") == 0 and ofd(descriptor, "U") == 0 else 1)
    equal(os.waitpid(child, 0)[1], 0, "a child and its parent's OFD lock")
    other.must("ofd", "f", "W")
    os.close(descriptor)
    other.end()
    stage.cast.remove(other)


@scenario(timeout=120, where="server", variants=True)
def locks_deadlock(rig):
    """Processes of one mount or two wait for each other's record locks: EDEADLK, as on a local disk; otherwise none."""
    with Stage(rig) as stage:
        for place in ("one", "two"):
            _deadlock(stage, "one", place)
        _deadlock_of_three(stage)
        _endless_circle(stage, "ofd", "one", "one")  # another process may release an OFD lock
        _endless_circle(stage, "ofd", "one", "two")
        _endless_circle(stage, "flock", "one", "two")
        _endless_circle(stage, "record", "one", "server")  # dafsd does not see that the program waits


def _deadlock(stage, first_place, second_place):
    a, b = stage.actor(first_place), stage.actor(second_place)
    for one, place in ((a, first_place), (b, second_place)):
        one.must("open", "g", str(stage.places[place] / "g"))
    for first, second in ((("f", 0, 1), ("f", 50, 1)), (("f", 0, 0), ("g", 0, 0))):
        a.must("record", first[0], "W", *first[1:])
        b.must("record", second[0], "W", *second[1:])
        a.begin("record", second[0], "W", *second[1:], True)
        check(a.waits(), "did not wait")
        b.refused("record", first[0], "W", *first[1:], True, error=errno.EDEADLK)
        b.must("record", second[0], "U")
        equal(a.answer(5), 0, "the wait that was none")
        a.must("record", first[0], "U")
        a.must("record", second[0], "U")
    _no_deadlock(a, b)
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


def _deadlock_of_three(stage):
    places = ("one", "two", "one")
    a, b, c = cast = [stage.actor(place) for place in places]
    for number, one in enumerate(cast):
        one.must("record", "f", "W", number, 1)
    a.begin("record", "f", "R", 1, 1, True)
    b.begin("record", "f", "W", 2, 1, True)
    for one in (a, b):
        check(one.waits(), "did not wait")
    c.refused("record", "f", "W", 0, 1, True, error=errno.EDEADLK)
    c.end()  # its locks are released
    stage.cast.remove(c)
    equal(b.answer(5), 0, "the wait of the second")
    b.must("record", "f", "U")
    equal(a.answer(5), 0, "the wait of the first")
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


def _no_deadlock(a, b):
    """A holder that releases the awaited lock, and then waits itself, is not part of a deadlock."""
    for _ in range(5):
        a.must("record", "f", "W", 0, 1)
        b.must("record", "f", "W", 50, 1)
        a.begin("record", "f", "W", 50, 1, True)
        check(a.waits(0.15), "did not wait")
        b.must("record", "f", "U", 50, 1)
        b.begin("record", "f", "W", 0, 1, True)
        equal(a.answer(5), 0, "the first wait")
        a.must("record", "f", "U")
        equal(b.answer(5), 0, "the second wait")
        b.must("record", "f", "U")


def _endless_circle(stage, kind, first, second):
    """A circle that lasts until a signal ends one wait."""
    a, b = stage.actor(first), stage.actor(second)
    for one, place in ((a, first), (b, second)):
        one.must("open", "g", str(stage.places[place] / "g"))
    where = () if kind == "flock" else (0, 1)
    a.must(kind, "f", "W", *where)
    b.must(kind, "g", "W", *where)
    a.begin(kind, "g", "W", *where, True)
    check(a.waits(), f"{kind}: did not wait")
    b.must("alarm", 1)
    b.begin(kind, "f", "W", *where, True)
    equal(b.answer(5), errno.EINTR, f"{kind}: a circle of {first} and {second}")
    b.must(kind, "g", "U")
    equal(a.answer(5), 0, f"{kind}: the other one")
    for one in (a, b):
        one.end()
        stage.cast.remove(one)


@scenario(timeout=60, where="server")
def locks_local(rig):
    """local_lock and nolock keep the kernel's own locks, of one machine."""
    server = rig.serve()
    (rig.export / "f").write_bytes(b"x")
    for option, at_server in (("nolock", ()), ("local_lock=all", ()), ("local_lock=flock", ("record",)),
                              ("local_lock=posix", ("flock",)), ("local_lock=none", ("record", "flock")),
                              ("lock", ("record", "flock"))):
        rig.mount(server, option)
        here, behind = os.open(rig.mnt / "f", os.O_RDWR), os.open(rig.export / "f", os.O_RDWR)
        again = os.open(rig.mnt / "f", os.O_RDWR)
        for name, lock in (("record", ofd), ("flock", flock)):
            equal(lock(here, "W"), 0, f"{option}: {name}")
            equal(lock(again, "W"), errno.EAGAIN, f"{option}: {name} on the same mount")
            equal(lock(behind, "W"), errno.EAGAIN if name in at_server else 0, f"{option}: {name} on the server")
            equal(lock(behind, "U"), 0, "unlock")
            equal(lock(here, "U"), 0, "unlock")
        for descriptor in (here, behind, again):
            os.close(descriptor)
        rig.umount()


@scenario(timeout=240, where="server", variants=True)
def locks_sqlite(rig):
    """Three processes on two mounts and on the server count up in one SQLite database; nothing is lost."""
    rounds = 200 if rig.full else 25
    with Stage(rig) as stage:
        path = rig.export / "db"
        with sqlite3.connect(path) as made:
            made.execute("create table t (who text, n integer)")
            made.execute("insert into t values ('all', 0)")
        made.close()
        children = {}
        for place in ("one", "two", "server"):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    _count(stage.places[place] / "db", rounds, place)
                    status = 0
                finally:
                    os._exit(status)
            children[child] = place
        while children:
            child, status = os.wait()
            if child in children:
                equal(status, 0, f"exit status of the process at {children.pop(child)}")
        for place in ("one", "two", "server"):
            db = sqlite3.connect(stage.places[place] / "db", timeout=60)
            equal(db.execute("select n from t where who = 'all'").fetchone(), (3 * rounds,), f"count at {place}")
            equal(db.execute("select count(*) from t").fetchone(), (1 + 3 * rounds,), f"rows at {place}")
            equal(db.execute("pragma integrity_check").fetchone(), ("ok",), f"database at {place}")
            db.close()


def _count(path, rounds, place):
    db = sqlite3.connect(path, timeout=200, isolation_level=None)
    for number in range(rounds):
        db.execute("begin immediate")
        found = db.execute("select n from t where who = 'all'").fetchone()[0]
        db.execute("update t set n = ? where who = 'all'", (found + 1,))
        db.execute("insert into t values (?, ?)", (place, number))
        db.execute("commit")
    db.close()


@scenario(timeout=120, where="server", variants=True)
def locks_data(rig):
    """Under an exclusive lock each mount sees the data that the other wrote under its own, through both caches."""
    rounds = 300 if rig.full else 60
    with Stage(rig) as stage:
        for lock in (flock, record):
            (rig.export / "f").write_bytes(b"0".rjust(20))
            children = []
            for place in ("one", "two"):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        for _ in range(rounds):
                            descriptor = os.open(stage.places[place] / "f", os.O_RDWR)
                            for _ in range(2):
                                if lock(descriptor, "W", wait=True) != 0:
                                    os._exit(2)
                                number = int(os.pread(descriptor, 20, 0))
                                os.pwrite(descriptor, str(number + 1).encode().rjust(20), 0)
                                if lock(descriptor, "U") != 0:
                                    os._exit(3)
                            os.close(descriptor)
                        status = 0
                    finally:
                        os._exit(status)
                children.append(child)
            for child in children:
                equal(os.waitpid(child, 0)[1], 0, f"{lock.__name__}: exit status")
            equal(int((rig.export / "f").read_bytes()), 4 * rounds, f"{lock.__name__}: the count")


@scenario(timeout=120, where="server")
def locks_fair(rig):
    """Two mounts that compete for one lock get it about equally often. Shows DAFS-4.4.1.2-19."""
    with Stage(rig) as stage:
        seconds, counts = 4, {}
        readers = {}
        for place in ("one", "two"):
            here, there = os.pipe()
            child = os.fork()
            if child == 0:
                count = 0
                descriptor = os.open(stage.places[place] / "f", os.O_RDWR)
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    if record(descriptor, "W", wait=True) == 0:
                        count += 1
                        time.sleep(0.005)
                        record(descriptor, "U")
                os.write(there, str(count).encode())
                os._exit(0)
            os.close(there)
            readers[place] = (child, here)
        for place, (child, here) in readers.items():
            counts[place] = int(os.read(here, 99) or 0)
            os.waitpid(child, 0)
        print("locks taken:", counts, flush=True)
        check(min(counts.values()) * 3 >= max(counts.values()) and min(counts.values()) > 10, f"unfair: {counts}")


@scenario(timeout=120, where="server")
def locks_restart(rig):
    """Locks outlive a server that is killed: the client reclaims them before any other client can take them.
    Shows DAFS-4.4.1.2-28 (LOCK)."""
    with Stage(rig) as stage:
        rig.expect("lost", "no session")
        a, b = stage.actor("one"), stage.actor("two")
        a.must("record", "f", "W", 10, 10)
        a.must("flock", "f", "W")
        a.must("open", "ofd", str(stage.places["one"] / "g"))
        a.must("ofd", "ofd", "R", 0, 5)
        stage.server.stop(signal.SIGKILL)
        stage.server.start()
        b.must("open", "g", str(stage.places["two"] / "g"))
        b.refused("record", "f", "R", 15, 1)
        b.refused("flock", "f", "R")
        b.refused("ofd", "g", "W")
        local = stage.actor("server")
        equal(local.do("blocker", "f", "W", 0, 0)[:3], ["W", 10, 10], "on the server")
        for words in (("record", "f", "U"), ("flock", "f", "U"), ("ofd", "ofd", "U")):
            a.must(*words)
        b.must("record", "f", "W", 15, 1)
        b.must("flock", "f", "W")
        b.must("ofd", "g", "W")


@scenario(timeout=90, where="server")
def locks_server_gone(rig):
    """While the server is away a waiter can be interrupted and killed; when it is back, locks work again."""
    with Stage(rig) as stage:
        rig.expect("lost", "no session", "reclaim", "lock")
        holder, alarmed, killed = stage.actor("one"), stage.actor("two"), stage.actor("two")
        holder.must("record", "f", "W")
        alarmed.must("alarm", 2)
        alarmed.begin("record", "f", "W", 0, 0, True)
        killed.begin("record", "f", "W", 0, 0, True)
        check(killed.waits(), "did not wait")
        stage.server.stop(signal.SIGKILL)
        equal(alarmed.answer(6), errno.EINTR, "SIGALRM while the server is away")
        start = time.monotonic()
        killed.end()
        stage.cast.remove(killed)
        check(time.monotonic() - start < 3, f"a waiter took {time.monotonic() - start:.1f} s to be killed")
        stage.server.start()
        fresh = stage.actor("two", "g")
        fresh.must("record", "f", "W")
        fresh.must("record", "f", "U")


@scenario(timeout=60, where="server")
def locks_client_gone(rig):
    """A mount.dafs that is killed keeps its locks for the lease, and no longer."""
    server = rig.serve(arguments=["--lease-time", "2"])
    (rig.export / "f").write_bytes(b"x")
    rig.mount(server)
    holder = Actor()
    holder.must("open", "f", str(rig.mnt / "f"))
    holder.must("record", "f", "W")
    behind = os.open(rig.export / "f", os.O_RDWR)
    equal(record(behind, "W"), errno.EAGAIN, "while the mount lives")
    time.sleep(5)  # more than a lease: the client renews it
    equal(record(behind, "W"), errno.EAGAIN, "a lease later")
    rig.mounted[rig.mnt].kill()
    rig.run(["umount", "-l", str(rig.mnt)], cwd="/", timeout=20)
    rig.mounted.pop(rig.mnt).wait()
    check(processes.wait_until(lambda: record(behind, "W") == 0, 10), "held 10 s after the client was killed")
    os.close(behind)
    holder.end(signal.SIGKILL)
