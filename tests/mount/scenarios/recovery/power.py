"""The power of the server fails under a load: every change that was answered is on its disk, and none is made twice.

The disk loses writes that were not flushed (recording_disk.py). With --stable=power the outcome is otherwise the same
as after a kill of dafsd.
"""

import contextlib
import os
import random
import subprocess
import sys
import time

import pytest

import processes
from changes import Load, counter_differences
from findings import Findings, root_peer
from peer import Request
from recording_disk import RecordingDisk
from rig import Failure, check, note, scenario

from .failures import RebootingServer, check_loads


def fail(server, disk):
    """Ends the disk, then dafsd at a random point; returns the disk's losses."""
    lost = disk.fail()
    server.process.kill()  # before it learns that the disk did not finish a request
    disk.release()
    server.process.wait()
    server.process = None
    return lost


# Writes a file of 1 MiB blocks again and again with O_DIRECT, the last time with fsync. Each block contains its number.
WRITE_BLOCKS = """
import mmap, os, sys
path, blocks, passes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
memory = mmap.mmap(-1, 1 << 20)
file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
for turn in range(passes):
    for block in range(blocks):
        memory[:] = f"{turn:4} {block:4} {path[-1]:>5}\\n".encode() * (1 << 16)
        if os.pwritev(file, [memory], block << 20) != 1 << 20:
            sys.exit("short write")
os.fsync(file)
"""


def block_of(path, turn, block):
    return f"{turn:4} {block:4} {path.name[-1]:>5}\n".encode() * (1 << 16)


@contextlib.contextmanager
def failing_server(rig, stable):
    """A server whose disk loses writes that were not flushed. Yields the server, the disk and the dice."""
    rig.need("mkfs.ext4", "losetup")
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("no loop devices")
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    disk = RecordingDisk(rig.local, rig.base / "disk", 192 << 20, seed)
    try:
        disk.switch_on()
        (disk.point / "export").mkdir()
        os.sync()
        server = RebootingServer(rig, [f"/data={disk.point}/export,rw,no_root_squash"], ["--stable", stable])
        server.state = disk.point / "state"
        rig.servers.append(server)
        server.start()
        yield server, disk, random.Random(seed)
        server.stop()
    finally:
        for one in rig.servers:
            if one.process is not None:
                one.process.kill()
                one.process.wait()
                one.process = None
        disk.switch_off()


@contextlib.contextmanager
def two_mounts(rig, stable, options=""):
    """A failing_server mounted twice, the first time with `options`. Yields the server, the disk, the mount points and
    the dice."""
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "still waiting",
               "state/clients: ")
    with failing_server(rig, stable) as (server, disk, dice):
        (disk.point / "export/counter").write_bytes(bytes(24))
        os.sync()
        other = rig.local / "other"
        other.mkdir()
        rig.mount(server, options)
        rig.mount(server, point=other)
        yield server, disk, (rig.mnt, other), dice
        rig.umount(other)
        rig.umount()


def fail_and_return(server, disk):
    """The power fails and comes back; returns the disk's losses."""
    lost = fail(server, disk)
    disk.switch_off()
    disk.switch_on()
    server.start()
    return lost


def power_failures(rig, stable, failures):
    """Power failures under a load on two mounts; raises Failure if the end state is not the model's."""
    with two_mounts(rig, stable) as (server, disk, points, dice):
        seed = dice.randrange(1 << 30)
        loads = [Load(str(point / f"load{i}"), seed + i, slow=0.001, counter=str(point / "counter")).start()
                 for i, point in enumerate(points * 2)]
        for number in range(failures):
            time.sleep(dice.uniform(0.3, 2.0))
            before = [load.changes for load in loads]
            note(f"failure {number + 1}: writes in the cache, sectors of them that stayed, writes, flushes: "
                 f"{fail_and_return(server, disk)}")
            if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                    for load, count in zip(loads, before)), 120 * rig.slowness):
                raise Failure(f"failure {number + 1}: no change in 120 s: {[load.changes for load in loads]}")
            if any(load.failed.value for load in loads):
                break
        check_loads(loads, disk.point / "export", 120 * rig.slowness)
        # The last failure may have lost an increment of a counter that no program used since. Its mount finds that out
        # at the COMMIT, and writes the data again.
        for point in points:
            with open(point / "counter", "r+b", buffering=0) as counter:
                os.fsync(counter.fileno())
        differences = counter_differences(loads, disk.point / "export/counter")
        check(not differences, f"two had a lock at once: {differences}")
        note(f"{failures} failures, {sum(load.changes for load in loads)} changes")


@scenario(timeout=3600, where="server")
def recover_power(rig):
    """The power of the server's disk fails again and again under a load on two mounts: the model's end state.
    Shows DAFS-6.5.38-11; recover_power_shown is the same without stable storage."""
    power_failures(rig, "power", 40 if rig.full else 4)


@scenario(timeout=600, where="server", long_only=True)
def recover_power_shown(rig):
    """The same load finds losses if dafsd is only to survive its own end, not that of the power."""
    rig.expect(".*")
    try:
        power_failures(rig, "process", 20)
    except Failure as failure:
        note(f"as it should be: {failure}")
    else:
        raise Failure("20 failures of the power lost nothing of a server with --stable=process")


@scenario(timeout=120, where="server", loopback=True)
def recover_exclusive(rig):
    """The power fails directly after an exclusive create at a server with --stable=process: the file and its verifier are
    there afterwards.
    Shows DAFS-6.5.24-09."""
    rig.expect(".*")
    findings = Findings()
    with failing_server(rig, "process") as (server, disk, _):
        for order in "<>":
            peer, data = root_peer(server.port, order)
            name = f"file{ord(order)}"
            made, _ = peer.opened(data, name, 2, verifier=b"exclusiv")
            fail_and_return(server, disk)
            peer.close()
            peer, data = root_peer(server.port, order)
            for verifier, status in ((b"another!", "EXIST"), (b"exclusiv", "OK")):
                request = peer.open(data, [name], 2, verifier=verifier)
                # The client has not said yet that it has nothing to reclaim.
                found = []
                check(processes.wait_until(lambda: found.append(peer.call(request)) or found[-1].status != "GRACE",
                                           60 * rig.slowness), "the grace period does not end")
                findings.equal(found[-1].status, status, f"{order} the create again with {verifier}")
            findings.equal(found[-1].raw(0, 64), made, f"{order} the file")
            peer.must(Request("DISCONNECT"))
            peer.close()
    findings.finish()


@scenario(timeout=900, where="server")
def recover_large(rig):
    """The power fails under large writes, kept in the buffers they were sent from: after fsync no block is missing."""
    blocks, passes, failures = 14, 40 if rig.full else 8, 20 if rig.full else 3
    writers = []
    with two_mounts(rig, "power", "nconnect=2") as (server, disk, points, dice):
        names = [point / f"large{number}" for number, point in enumerate(points * 2)]
        try:
            for name in names:
                writers.append(subprocess.Popen([sys.executable, "-c", WRITE_BLOCKS, str(name), str(blocks), str(passes)],
                                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/"))
            failed = 0
            while failed < failures and any(writer.poll() is None for writer in writers):
                time.sleep(dice.uniform(0.2, 1.0))
                fail_and_return(server, disk)
                failed += 1
            # A mount whose writers are done reports that it has nothing to reclaim. The other mount waits for that
            # report only, not for the grace period.
            for writer in writers:
                check(writer.wait(60 * rig.slowness) == 0, f"a writer ends with {writer.returncode}")
        finally:
            for writer in writers:
                if writer.poll() is None:
                    writer.kill()
        check(failed > 0, "no failure of the power while they wrote")
        note(f"{failed} failures")
        for name in names:
            with open(disk.point / "export" / name.name, "rb") as file:
                for block in range(blocks):
                    check(file.read(1 << 20) == block_of(name, passes - 1, block),
                          f"{name.name}, block {block} is not what was written last")
