"""A server moves to another machine, after a failure or as planned, and no program notices except as a pause.

A machine is a dafsd with a port of its own, in a mount namespace of its own, that can reach the disk with the export and
the state directory. The export names the other machine as its alternate location.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import time

import processes
from changes import Load, counter_differences
from recording_disk import RecordingDisk
from rig import Failure, Server, check, equal, free_port, note, scenario

from .failures import RebootingServer, check_loads, drawn_moments
from .paths import SILENT, Pulse, status, two_links
from .power import fail

OTHER_ENDS = "takes over when that one ends"


class Machine(Server):
    """A dafsd that may serve `directory`, whose state directory is shared with the other machine."""

    def __init__(self, rig, port, directory, state, alternates, arguments=(), address=None):
        locations = "".join(f",failover={each}:/data" for each in alternates)
        super().__init__(rig, [f"/data={directory},rw,no_root_squash{locations}"],
                         ["--lease-time", "10", "--stable", "power", *arguments], port)
        self.state = state
        self.address = address or rig.address
        rig.servers.append(self)

    def stand_by(self):
        """Starts dafsd as a standby, and waits until it waits."""
        words = [str(self.rig.bin / "dafsd"), "--foreground", "--standby", "--listen", f"tcp:{self.address}:{self.port}",
                 "--state-dir", str(self.state), "--admin-socket", str(self.socket),
                 "--export", f"{self.exports[0]},insecure", *self.arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            start_new_session=True)
        check(processes.wait_until(self.waits, 20 * self.rig.slowness), "the standby does not wait")

    def waits(self):
        return OTHER_ENDS in self.log.read_text() and "taking over" not in self.log.read_text()

    def serves(self):
        return "taking over" in self.log.read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def hand_over_to(self, other):
        """dafsctl server drain --to; returns when dafsd has ended."""
        self.rig.run([self.rig.bin / "dafsctl", "server", "--socket", self.socket, "drain", "--to",
                      f"{other.address}:{other.port}"], cwd="/")
        equal(self.process.wait(20 * self.rig.slowness), 0, "exit status of dafsd after drain --to")
        self.process = None


class RebootingMachine(Machine, RebootingServer):
    """Each start is a start of its machine."""


def two_machines(rig, kind, directory, state, addresses=(None, None)):
    ports = [free_port(), free_port()]
    at = [f"{address or rig.address}:{port}" for address, port in zip(addresses, ports)]
    return [kind(rig, ports[i], directory, state, [at[1 - i]], address=addresses[i]) for i in (0, 1)]


def longest(pulses, since):
    """The longest round of programs that was not over at `since`, and ends the programs."""
    return max(duration for pulse in pulses for start, duration in pulse.stop(30) if start + duration > since)


@scenario(timeout=60, where="server", loopback=True)
def moved(rig):
    """A server is killed, and then its successor hands over: the mount goes on at the other machine each time.
    Shows DAFS-2.2-03, DAFS-2.2-04, DAFS-5.3-01, DAFS-5.3-03, DAFS-5.3-05, DAFS-5.3-07, DAFS-5.3-08, DAFS-5.3.1-02."""
    rig.expect("session with .* lost", "new session", "no session for")
    first, second = two_machines(rig, Machine, rig.export, rig.base / "state")
    first.start()
    rig.mount(first)
    second.stand_by()
    pulses = [Pulse(rig.mnt / f"pulse{i}") for i in range(2)]
    with open(rig.mnt / "kept", "w", encoding="ascii") as kept:
        kept.write("before ")
        kept.flush()
        since = time.monotonic()
        first.kill()
        kept.write("after")
        kept.flush()
        os.fsync(kept.fileno())
        check(second.serves(), "the standby serves")
        took = time.monotonic() - since
        first.log.unlink()
        first.stand_by()
        before = time.monotonic()
        second.hand_over_to(first)
        os.fsync(kept.fileno())
        check(processes.wait_until(first.serves, 10 * rig.slowness), "the first machine serves again")
        (rig.mnt / "new").write_text("x")
    note(f"killed: {took:.2f} s until fsync returns; handed over: longest pause {longest(pulses, before):.2f} s")
    equal((rig.export / "kept").read_text(), "before after", "the file that was open")
    equal([path["state"] for path in status(rig)["paths"] if path["sessions"]], ["works"], "path in use")
    rig.umount()


@scenario(timeout=60, where="server", loopback=True, long_only=True)
def standby_waits(rig):
    """A standby does not take over from a server that is cut off from the network or stopped, and a mount that can reach
    the standby only waits. It takes over when the other is killed."""
    rig.expect("session with .* lost", "new session", "no session for", "still waiting", "not connected")
    with two_links(rig) as links:
        first, second = two_machines(rig, Machine, rig.export, rig.base / "state", links.servers)
        first.start()
        rig.mount(first, "failover_after=1")
        second.stand_by()
        pulse = Pulse(rig.mnt / "pulse")
        (rig.mnt / "before").write_text("x")
        links.fail(0, SILENT)
        os.kill(first.process.pid, signal.SIGSTOP)
        equal(processes.wait_until(lambda: not second.waits(), 2), False, "the standby takes over from a living server")
        done = subprocess.run([rig.bin / "dafsctl", "ping", "-c", "1", f"{second.address}:{second.port}"], check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check(done.returncode != 0, "the standby answers")
        first.kill()
        check(processes.wait_until(second.serves, 10 * rig.slowness), "the standby serves")
        (rig.mnt / "after").write_text("x")
        note(f"longest pause {longest([pulse], 0):.2f} s")
        rig.umount()


@contextlib.contextmanager
def machines_with_a_disk(rig):
    rig.need("mkfs.ext4", "losetup")
    seed, dice = drawn_moments()
    disk = RecordingDisk(rig.local, rig.base / "disk", 256 << 20, seed)
    try:
        disk.switch_on()
        (disk.point / "export").mkdir()
        (disk.point / "export/counter").write_bytes(bytes(24))
        os.sync()
        yield two_machines(rig, RebootingMachine, disk.point / "export", disk.point / "state"), disk, dice
    finally:
        for one in rig.servers:
            if one.process is not None:
                one.kill()
        disk.switch_off()


def move_disk(disk):
    """Returns how long the disk was away."""
    start = time.monotonic()
    disk.switch_off()
    disk.switch_on()
    return time.monotonic() - start


@scenario(timeout=7200, where="server", loopback=True, long_only=True)
def moved_often(rig):
    """100 moves between two machines under accounted load on two mounts, by a loss of power, a kill and drain --to:
    nothing is lost or made twice, and no program sees an error. DAFS_MOVES sets their number.
    Shows DAFS-2.2-03, DAFS-4.3.4-01, DAFS-5.2.5-08."""
    rig.expect("session with .* ", "still waiting", "no session for", "not connected", "new session", "state/clients: ")
    moves = int(os.environ.get("DAFS_MOVES", "100"))
    with machines_with_a_disk(rig) as (machines, disk, dice):
        other = rig.local / "other"
        other.mkdir()
        points = [rig.mnt, other]
        now, then = machines
        now.start()
        for point in points:
            rig.mount(now, "nconnect=2", point=point)
        loads = [Load(str(point / f"load{i}"), dice.randrange(1 << 30), slow=0.001, counter=str(point / "counter")).start()
                 for i, point in enumerate(points * 2)]
        pulses = [Pulse(point / f"pulse{i}") for i, point in enumerate(points)]
        events = []
        for number in range(moves):
            time.sleep(dice.uniform(0.3, 1.5))
            how = dice.choice(("power", "kill", "drain"))
            begin = time.monotonic()
            if how == "power":
                fail(now, disk)
            elif how == "kill":
                now.kill()
            else:
                now.hand_over_to(then)
            events.append((begin, how, move_disk(disk)))
            before = [load.changes for load in loads]  # no server: they wait
            then.start()
            now, then = then, now
            if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                    for load, count in zip(loads, before)), 120 * rig.slowness):
                raise Failure(f"move {number + 1}, {how}: no change in 120 s")
            check(not any(load.failed.value for load in loads), f"a program saw an error after move {number + 1}, {how}")
        rounds = [pulse.stop(120) for pulse in pulses]
        check_loads(loads, disk.point / "export", 120 * rig.slowness)
        for point in points:
            with open(point / "counter", "r+b", buffering=0) as counter:
                os.fsync(counter.fileno())
        differences = counter_differences(loads, disk.point / "export/counter")
        check(not differences, f"two had a lock at once: {differences}")
        pauses = {}
        for number, (begin, how, away) in enumerate(events):
            end = events[number + 1][0] if number + 1 < len(events) else begin + 60
            pause = max(duration for rows in rounds for start, duration in rows if begin - duration < start < end)
            pauses.setdefault(how, []).append((pause, away))
        for how, some in sorted(pauses.items()):
            note(f"{len(some)} moves ({how}): pause median {statistics.median(p for p, _ in some):.2f} s, worst "
                 f"{max(p for p, _ in some):.2f} s; beyond the disk's move: worst {max(p - a for p, a in some):.2f} s")
        note(f"{moves} moves, {sum(load.changes for load in loads)} changes")
        for point in reversed(points):
            rig.umount(point)
        now.stop()
