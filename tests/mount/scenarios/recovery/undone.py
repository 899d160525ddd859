"""Auto-recovery and persistent locks on disks: the power fails, the file system shares blocks, the disk is full."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from actors import record
from rig import Failure, Server, check, equal, errno_of, note, scenario

from .power import fail_and_return, failing_server

BLOCK, BLOCKS = 4096, 48

# Changes a file of one generation to the next: each block, in any order, with a different length on the way.
CHANGE = """
import os, random, sys
path, generation, block, blocks = sys.argv[1], *map(int, sys.argv[2:])
fd = os.open(path, os.O_RDWR)
for number in random.sample(range(blocks), blocks):
    os.pwrite(fd, (f"{generation:15}\\n" * (block // 16)).encode(), number * block)
    if number % 8 == 0:
        os.fsync(fd)
    if number % 16 == 1:
        os.ftruncate(fd, (blocks + number) * block)
os.ftruncate(fd, blocks * block)
"""


def content_of(generation):
    return f"{generation:15}\n".encode() * (BLOCK // 16 * BLOCKS)


class Updates:
    """Programs that change a file under an auto-recovery lock, one after the other."""

    def __init__(self, rig, path, generation):
        self.rig, self.path = rig, path
        self.done = generation  # the last that has unlocked
        self.process = None

    def begin(self):
        words = [sys.executable, "-c", CHANGE, str(self.path), str(self.done + 1), str(BLOCK), str(BLOCKS)]
        self.process = subprocess.Popen([self.rig.bin / "dafs-lock", "--auto-recover", self.path, *words], cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)

    def run(self, ends):
        while time.monotonic() < ends:
            self.begin()
            equal(self.process.wait(60), 0, "exit status of an update")
            self.done += 1

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@scenario(timeout=1200, where="server", long_only=True)
def auto_recovery_power(rig):
    """The machines of client and server lose their power in the middle of changes under an auto-recovery lock: the file
    is as before the lock or as after it, never between.

    Shows DAFS-4.4.1.6-06."""
    rig.expect(".*")
    undone = 0
    with failing_server(rig, "power") as (server, disk, dice):
        (disk.point / "export/f").write_bytes(content_of(0))
        os.sync()
        generation = 0
        for turn in range(20):
            rig.mount(server)
            updates = Updates(rig, rig.mnt / "f", generation)
            updates.run(time.monotonic() + dice.uniform(0, 1))
            updates.begin()  # one more, which is cut
            time.sleep(dice.uniform(0.02, 0.4))
            lost = fail_and_return(server, disk) if dice.random() < 0.5 else None
            rig.mounted[rig.mnt].kill()
            rig.run(["umount", "-l", str(rig.mnt)], cwd="/", timeout=20)
            rig.mounted.pop(rig.mnt).wait()
            if lost is None:
                lost = fail_and_return(server, disk)
            updates.kill()
            rig.mount(server)
            rig.run([rig.bin / "dafs-lock", "-w", "60", rig.mnt / "f", "true"], cwd="/", timeout=90)
            content = (disk.point / "export/f").read_bytes()
            possible = [made for made in (updates.done, updates.done + 1) if content == content_of(made)]
            if not possible:
                raise Failure(f"failure {turn + 1}: the file is of no generation, {len(content)} bytes, "
                              f"{sorted(set(content.split()))[:5]}, last unlocked {updates.done}; disk: {lost}")
            generation = possible[0]
            undone += generation == updates.done
            equal((rig.mnt / "f").read_bytes(), content, "the file on the mount")
            rig.umount()
    note(f"20 failures, {undone} undone, {generation} generations")
    check(undone > 0, "no failure has met a change under way")


@scenario(timeout=120, where="server", long_only=True)
def auto_recovery_shares_blocks(rig):
    """On Btrfs and XFS the saved bytes share the blocks of the file; a failed command is undone there, too."""
    rig.need("mkfs.btrfs", "mkfs.xfs", "filefrag")
    for kind, make in (("btrfs", ["mkfs.btrfs", "-q"]), ("xfs", ["mkfs.xfs", "-q", "-m", "reflink=1"])):
        image, point = rig.base / f"{kind}.image", rig.base / kind
        point.mkdir()
        with open(image, "wb") as file:
            file.truncate(320 << 20)
        rig.run([*make, image], cwd="/")
        if subprocess.run(["mount", "-o", "loop", image, point], check=False).returncode != 0:
            pytest.skip(f"needs {kind} and loop devices")
        try:
            exported = point / "exported"
            exported.mkdir()
            before = os.urandom(4 << 20)
            (exported / "f").write_bytes(before)
            os.sync()
            server = rig.serve([f"/data={exported},rw,no_root_squash"])
            rig.mount(server)
            look = f"find {point} -name '.undo-*' -size +1M -exec filefrag -v {{}} +"
            change = f"head -c 3000000 /dev/zero | dd of={rig.mnt}/f conv=notrunc,fsync bs=100k status=none; {look}; exit 9"
            status, text = rig.run([rig.bin / "dafs-lock", "--auto-recover", rig.mnt / "f", "-c", change], cwd="/",
                                   timeout=60, status=None)
            equal(status, 9, f"exit status on {kind} ({text})")
            check("shared" in text, f"{kind}: no undo file shares blocks: {text}")
            check((exported / "f").read_bytes() == before, f"{kind}: the file is not as before")
            check((rig.mnt / "f").read_bytes() == before, f"{kind}: the mount does not see the file as before")
            rig.umount()
            server.stop()
            rig.servers.remove(server)
        finally:
            subprocess.run(["umount", "-l", point], check=False)


@scenario(timeout=60, where="server", long_only=True)
def persistent_locks_full_disk(rig):
    """The state directory is full: a persistent lock is refused with ENOSPC or ENOLCK, those that are held stay, and
    ordinary locks work."""
    state = rig.base / "state-full"
    state.mkdir(mode=0o700)
    rig.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "state", state], cwd="/")
    try:
        server = Server(rig, [f"/data={rig.export},rw,no_root_squash"])
        server.state = state
        rig.servers.append(server)
        server.start()
        (rig.export / "f").write_bytes(b"0" * 100)
        (rig.export / "g").write_bytes(b"0" * 100)
        rig.mount(server, "persist_locks")
        rig.expect("persistent lock not changed", "full")
        first = os.open(rig.mnt / "f", os.O_RDWR)
        equal(record(first, "W", 0, 10), 0, "a lock before")
        fill = state / "fill"
        with open(fill, "wb", buffering=0) as file:
            while errno_of(file.write, b"0" * 65536) == 0 and os.statvfs(state).f_bavail > 0:
                pass
        second = os.open(rig.mnt / "g", os.O_RDWR)
        failed = [record(second, "W", at, 10) for at in range(0, 2000, 20)]
        check(set(failed) <= {0, errno.ENOLCK, errno.ENOSPC} and failed[-1] != 0, f"locks on a full disk: {set(failed)}")
        equal(os.pread(first, 10, 0), b"0" * 10, "a read under the lock that is held")
        os.pwrite(first, b"1" * 10, 0)
        os.unlink(fill)
        equal(record(second, "W", 0, 10), 0, "a lock when there is space again")
        equal(record(first, "U", 0, 10), 0, "the release of the first")
        server.stop(signal.SIGKILL)
        server.start()
        equal(record(second, "W", 50, 10), 0, "another after a restart")
        os.close(first)
        os.close(second)
        rig.umount()
        server.stop()
    finally:
        subprocess.run(["umount", "-l", state], check=False)
