"""The power of the server fails under a load: what was answered is on its disk, and nothing is done twice.

The disk is one that loses what it was not told to make safe (recording_disk.py). With --stable=power all else is as
after a kill of dafsd.
"""

import os
import random
import time

import processes
from changes import Load, counter_differences
from recording_disk import RecordingDisk
from rig import Failure, Skip, check, note, scenario

from .recovery import RebootingServer, check_loads


def fail(server, disk):
    """Ends the disk, then dafsd in the middle of whatever it does; returns what that lost."""
    lost = disk.fail()
    server.process.kill()  # before it learns of anything that the disk did not do
    disk.release()
    server.process.wait()
    server.process = None
    return lost


def power_failures(rig, stable, failures):
    """Failures of the power under a load on two mounts; raises Failure where the end state is not the model's."""
    rig.need("mkfs.ext4", "losetup")
    if not os.path.exists("/dev/loop-control"):
        raise Skip("no loop devices")
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "still waiting")
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    moments = random.Random(seed)
    disk = RecordingDisk(rig.local, rig.base / "disk", 192 << 20, seed)
    try:
        disk.switch_on()
        (disk.point / "export").mkdir()
        (disk.point / "export/counter").write_bytes(bytes(24))
        os.sync()
        server = RebootingServer(rig, [f"/data={disk.point}/export,rw,no_root_squash"], ["--stable", stable])
        server.state = disk.point / "state"
        rig.servers.append(server)
        server.start()
        other = rig.local / "other"
        other.mkdir()
        rig.mount(server)
        rig.mount(server, point=other)
        loads = [Load(str(point / f"load{i}"), seed + i, slow=0.001, counter=str(point / "counter")).start()
                 for i, point in enumerate((rig.mnt, other) * 2)]
        for number in range(failures):
            time.sleep(moments.uniform(0.3, 2.0))
            before = [load.changes for load in loads]
            note(f"failure {number + 1}: writes in the cache, sectors of them that stayed, writes, flushes: "
                 f"{fail(server, disk)}")
            disk.switch_off()
            disk.switch_on()
            server.start()
            if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                    for load, count in zip(loads, before)), 120 * rig.slowness):
                raise Failure(f"failure {number + 1}: no change in 120 s: {[load.changes for load in loads]}")
            if any(load.failed.value for load in loads):
                break
        check_loads(loads, disk.point / "export", 120 * rig.slowness)
        # What the last failure lost of a number that nobody has asked for since, its mount writes again with COMMIT.
        for point in (rig.mnt, other):
            with open(point / "counter", "r+b", buffering=0) as counter:
                os.fsync(counter.fileno())
        differences = counter_differences(loads, disk.point / "export/counter")
        check(not differences, f"two had a lock at once: {differences}")
        note(f"{failures} failures, {sum(load.changes for load in loads)} changes")
        rig.umount(other)
        rig.umount()
        server.stop()
    finally:
        for one in rig.servers:
            if one.process is not None:
                one.process.kill()
                one.process.wait()
                one.process = None
        disk.switch_off()


@scenario(timeout=3600, where="server")
def recover_power(rig):
    """The power of the server's disk fails again and again under a load on two mounts: the model's end state."""
    power_failures(rig, "power", 40 if rig.full else 4)


@scenario(timeout=600, where="server", long_only=True)
def recover_power_shown(rig):
    """The same finds fault with a dafsd that is to outlive its own end only, not that of the power."""
    rig.expect(".*")
    try:
        power_failures(rig, "process", 20)
    except Failure as failure:
        note(f"as it should be: {failure}")
    else:
        raise Failure("20 failures of the power lost nothing of a server with --stable=process")
