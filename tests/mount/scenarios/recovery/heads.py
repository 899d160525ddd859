"""Several heads over one CephFS: one serves an export at a time, another takes over when it ends or has been evicted.

A head is a dafsd and a ceph-fuse. Exports and state directory are on CephFS. docs/availability.md says what is promised.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import signal
import sys
import time

import processes
from ceph import ceph_cluster
from changes import Load
from rig import Failure, Server, check, equal, errno_of, free_port, note, scenario

from .failures import RebootingServer, check_loads
from .moves import Machine, longest
from .paths import Pulse

EXPECTED = ("session with .* ", "still waiting", "no session for", "not connected", "new session", "state/clients: ",
            "is lost: ", "SIGBUS")


class HeadServer(Machine):
    """The dafsd of a head. Its machine is another one for CephFS, has another boot id, and CephFS at the same path."""

    WITH_ITS_CEPH = """mount --bind "$1" "$2" && shift 2 && exec "$@" """

    def __init__(self, rig, head, port, alternate):
        self.common = rig.base / "cephfs"
        self.common.mkdir(exist_ok=True)
        super().__init__(rig, port, self.common / "export", self.common / "state", [f"{rig.address}:{alternate}"])
        self.head = head
        self.boot_id = rig.local / f"boot-id-{head.name}"
        self.boot_id.write_text(secrets.token_hex(16) + "\n")

    def command(self, words):
        return ["unshare", "--mount", "sh", "-c", self.WITH_ITS_CEPH, "head", self.head.point, self.common,
                sys.executable, "-c", RebootingServer.REBOOTED, self.boot_id, *words]

    def crash(self):
        """The machine of the head ends. CephFS still holds its locks."""
        self.process.kill()
        self.head.crash()
        self.process.wait()
        self.process = None

    def join(self):
        """The machine has started again."""
        self.head.mount()
        self.boot_id.write_text(secrets.token_hex(16) + "\n")
        self.log.unlink(missing_ok=True)
        self.stand_by()


@contextlib.contextmanager
def two_heads(rig):
    """Yields two heads. The first one serves, the second one is its standby."""
    rig.expect(*EXPECTED)
    with ceph_cluster(rig) as cluster:
        heads = [cluster.head(f"head{i}") for i in range(2)]
        (heads[0].point / "export").mkdir()
        (heads[0].point / "state").mkdir(mode=0o700)
        ports = [free_port(), free_port()]
        servers = [HeadServer(rig, heads[i], ports[i], ports[1 - i]) for i in range(2)]
        servers[0].start()
        check(processes.wait_until(lambda: " serving " in servers[0].log.read_text(), 60), "the first head serves")
        servers[1].stand_by()
        yield servers


def adopt(rig, now, then, number):
    """Lets the head `then` adopt what `now` serves: after a crash, a kill or a drain, by `number`. `now` stands by."""
    how = ("crash", "kill", "drain")[number % 3]
    if how == "crash":
        now.crash()
        now.head.evict()
    elif how == "kill":
        now.kill()
    else:
        now.hand_over_to(then)
    check(processes.wait_until(then.serves, 60 * rig.slowness), f"move {number + 1}, {how}: not adopted")
    if how == "crash":
        now.join()
    else:
        now.log.unlink()
        now.stand_by()


@scenario(timeout=900, where="server", loopback=True, long_only=True)
def heads_adopted(rig):
    """Heads are killed, crash and hand over under programs that write and sync on two mounts: these see a pause, no error,
    and the file of each has what was written last. DAFS_MOVES sets the number of moves."""
    moves = int(os.environ.get("DAFS_MOVES", "6"))
    with two_heads(rig) as (now, then):
        other = rig.local / "other"
        other.mkdir()
        points = [rig.mnt, other]
        for point in points:
            rig.mount(now, "failover_after=2", point=point)
        pulses = [Pulse(point / f"pulse{i}") for i, point in enumerate(points)]
        for number in range(moves):
            time.sleep(1)
            adopt(rig, now, then, number)
            (rig.mnt / f"after{number}").write_text("x")
            now, then = then, now
        for i, pulse in enumerate(pulses):
            rounds = pulse.stop(120)
            equal(int((now.head.point / f"export/pulse{i}").read_text()), len(rounds) - 1, "the last round of a program")
            note(f"longest pauses of {len(rounds)} rounds: "
                 f"{', '.join(f'{took:.1f}' for took in sorted((took for _, took in rounds), reverse=True)[:moves])} s")
        for point in reversed(points):
            rig.umount(point)
        now.stop()


@scenario(timeout=1800, where="server", loopback=True, long_only=True)
def heads_adopted_by_changes(rig):
    """The same under loads that create, rename and remove files all the time: each change is made once, none fails. No hard
    links: ceph-fuse loses names of such files by itself (docs/availability.md). DAFS_MOVES sets the number of moves."""
    moves = int(os.environ.get("DAFS_MOVES", "6"))
    with two_heads(rig) as (now, then):
        rig.mount(now, "failover_after=2")
        loads = [Load(str(rig.mnt / f"load{i}"), number, slow=0.001, links=False).start()
                 for i, number in enumerate((secrets.randbits(30), secrets.randbits(30)))]
        for number in range(moves):
            before = [load.changes for load in loads]
            check(processes.wait_until(lambda: all(load.failed.value or load.changes > count + 20
                                                   for load, count in zip(loads, before)), 60 * rig.slowness),
                  f"no change before move {number + 1}")
            for load in loads:
                if load.failed.value:
                    load.wait(10)
                    raise Failure(f"a program saw an error: {load.failures}, after {number} moves")
            adopt(rig, now, then, number)
            now, then = then, now
        check_loads(loads, now.head.point / "export", 120 * rig.slowness)
        rig.umount()
        now.stop()


@scenario(timeout=300, where="server", loopback=True, long_only=True)
def head_stopped(rig):
    """A stopped head is not adopted before its eviction from CephFS. It ends when it goes on, and its clients see no
    error."""
    with two_heads(rig) as (first, second):
        rig.mount(first, "failover_after=2")
        pulse = Pulse(rig.mnt / "pulse")
        with open(rig.mnt / "kept", "w", encoding="ascii") as kept:
            kept.write("before ")
            kept.flush()
            os.fsync(kept.fileno())
            fcntl.lockf(kept, fcntl.LOCK_EX)
            os.kill(first.process.pid, signal.SIGSTOP)
            equal(processes.wait_until(lambda: not second.waits(), 8), False, "the standby adopts a living head")
            since = time.monotonic()
            first.head.evict()
            check(processes.wait_until(second.serves, 30 * rig.slowness), "the standby does not adopt an evicted head")
            adopted = time.monotonic() - since
            os.kill(first.process.pid, signal.SIGCONT)
            check(first.process.wait(10 * rig.slowness) != 0, "the evicted head ends with an error")
            first.process = None
            kept.write("after")
            kept.flush()
            os.fsync(kept.fileno())
        check("is lost" in first.log.read_text() or "SIGBUS" in first.log.read_text(), "the evicted head names the reason")
        note(f"{adopted:.1f} s from the eviction; longest pause {longest([pulse], 0):.1f} s, of which 8 s stopped")
        equal((second.head.point / "export/kept").read_text(), "before after", "the file that was open")
        rig.umount()
        second.stop()


@scenario(timeout=300, where="server", loopback=True, long_only=True)
def head_cut_off(rig):
    """A head whose CephFS does not answer ends before CephFS may give its lock to another one."""
    with two_heads(rig) as (first, second):
        os.kill(first.head.process.pid, signal.SIGSTOP)
        since = time.monotonic()
        gone = processes.wait_until(lambda: "is lost: no answer for 35s" in first.log.read_text(), 60)
        os.kill(first.head.process.pid, signal.SIGCONT)
        check(gone, "a head without its file system goes on")
        note(f"ended after {time.monotonic() - since:.0f} s")
        check(time.monotonic() - since < 40, "too late for CephFS")
        check(first.process.wait(20) != 0, "ends with an error")
        first.process = None
        check(processes.wait_until(second.serves, 30), "the standby serves")
        second.stop()


@scenario(timeout=300, where="server", loopback=True, long_only=True)
def heads_see_each_other(rig):
    """Two heads with an export each, of directories that overlap: locks of fcntl and flock exclude each other through
    both, and each sees names and data of the other."""
    with ceph_cluster(rig) as cluster:
        points = [rig.mnt, rig.local / "other"]
        points[1].mkdir()
        servers = []
        for i in range(2):
            head = cluster.head(f"head{i}")
            (head.point / "export").mkdir(exist_ok=True)
            servers.append(Server(rig, [f"/data={head.point}/export,rw,no_root_squash"]))
            rig.servers.append(servers[i])
            servers[i].state = head.point / f"state{i}"
            servers[i].start()
            rig.mount(servers[i], point=points[i])
        (points[0] / "file").write_text("x")
        for kind in (fcntl.lockf, fcntl.flock):
            for here, there in (points, points[::-1]):
                with open(here / "file", "r+", encoding="ascii") as mine, open(there / "file", "r+", encoding="ascii") as theirs:
                    kind(mine, fcntl.LOCK_EX)
                    equal(errno_of(kind, theirs, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN, f"{kind.__name__} through both")
                    kind(mine, fcntl.LOCK_UN)
                    check(processes.wait_until(lambda: errno_of(kind, theirs, fcntl.LOCK_EX | fcntl.LOCK_NB) == 0, 5),
                          "the lock is free again")
        for number, (here, there) in enumerate((points, points[::-1])):
            since = time.monotonic()
            (here / f"new{number}").write_text("content")
            check(processes.wait_until(lambda: (there / f"new{number}").exists(), 10, 0.002), "a name is seen")
            took = time.monotonic() - since
            equal((there / f"new{number}").read_text(), "content", "data")
            note(f"name seen after {took * 1000:.0f} ms")
        for point in points:
            rig.umount(point)
        for server in servers:
            server.stop()


@scenario(timeout=300, where="server", loopback=True, long_only=True)
def head_loses_an_export(rig):
    """A ceph-fuse below one export hangs: requests there wait, other exports go on. It ends: errors there only."""
    rig.expect(*EXPECTED)
    with ceph_cluster(rig) as cluster:
        head = cluster.head("head")
        (head.point / "export").mkdir()
        server = rig.serve([f"/data={rig.export},rw,no_root_squash", f"/ceph={head.point}/export,rw,no_root_squash"])
        there = rig.local / "there"
        there.mkdir()
        rig.mount(server)
        rig.mount(server, export="/ceph", point=there)
        (there / "file").write_text("x")
        pulse = Pulse(rig.mnt / "pulse")
        waiting = Pulse(there / "pulse")
        time.sleep(1)
        os.kill(head.process.pid, signal.SIGSTOP)
        time.sleep(5)
        pause = longest([pulse], 0)
        check(pause < 2 * rig.slowness, f"the other export waits, too: {pause:.1f} s")
        os.kill(head.process.pid, signal.SIGCONT)
        check(longest([waiting], 0) > 4, "the export on CephFS has waited")
        head.process.kill()
        head.process.wait()
        found = errno_of((there / "new").write_text, "x")
        check(found != 0, "a change without a file system")
        note(f"the export without its ceph-fuse: {errno.errorcode[found]}")
        (rig.mnt / "new").write_text("x")
        rig.umount(there)
        rig.umount()
        server.stop()
