"""Little memory: writeback through the mount must make progress although writer and daemon have almost no memory
left."""

import ctypes
import mmap
import os
import pathlib
import random
import re

import pytest

import processes
from rig import Failure, check, equal, scenario

MIB = 1 << 20
IDLE_MOST = 12 * 1024  # KiB that an idle mount over TCP may take


class Cgroup:
    """A memory cgroup of our own, version 1 or 2; gone when the block ends."""

    def __init__(self, name, limit):
        first = pathlib.Path("/sys/fs/cgroup/memory")
        second = pathlib.Path("/sys/fs/cgroup")
        if (first / "memory.limit_in_bytes").exists():
            self.path, self.limit_file = first / name, "memory.limit_in_bytes"
        elif "memory" in _controllers(second):
            self.path, self.limit_file = second / name, "memory.max"
        else:
            pytest.skip("no memory cgroup")
        self.limit = limit

    def __enter__(self):
        try:
            self.path.mkdir()
            (self.path / self.limit_file).write_text(str(self.limit))
        except OSError as error:
            if self.path.exists():
                self.path.rmdir()
            pytest.skip(f"memory cgroup: {error.strerror}")
        return self

    def add(self, pid):
        try:
            (self.path / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            pytest.skip(f"memory cgroup: {error.strerror}")

    def __exit__(self, *_):
        for pid in (self.path / "cgroup.procs").read_text().split():
            (self.path.parent / "cgroup.procs").write_text(pid)
        self.path.rmdir()


def _may_flush_io():
    """Whether this system lets a process set PR_SET_IO_FLUSHER (CAP_SYS_RESOURCE)."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).prctl(57, 1, 0, 0, 0) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _controllers(root):
    try:
        return (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []


@scenario(timeout=240, variants=False, alone=True)
def pressure(rig):
    """192 MiB written by write(2) and by a shared map, the writer and mount.dafs in 64 MiB beyond its own."""
    total = 192 * MIB
    # Without the capability the daemon's own allocations (socket buffers) may wait for its own writeback. In that case
    # only the writer is short of memory.
    daemons = rig.daemons() if _may_flush_io() else []
    if not daemons:
        print("pressure: PR_SET_IO_FLUSHER is not permitted here: the limit holds the writer alone", flush=True)
    with Cgroup(f"dafs-mount-test-{os.getpid()}", 64 * MIB) as group:
        for pid in daemons:
            group.add(pid)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                group.add(os.getpid())
                _fill(rig.root / "written", total, False)
                _fill(rig.root / "mapped", total, True)
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            raise Failure(f"the writer was ended by signal {-status}")
        equal(status, 0, "exit status of the writer")
        if rig.behind is not None:
            check(rig.daemons(), "mount.dafs did not live through it")
    for name in ("written", "mapped"):
        path = (rig.behind or rig.root) / name
        equal(path.stat().st_size, total, f"size of {name}")
        with open(path, "rb") as file:
            for number in range(total // MIB):
                check(file.read(MIB) == _block(number), f"MiB {number} of {name}")
        (rig.root / name).unlink()


def _block(number):
    return random.Random(number).randbytes(4096) * (MIB // 4096)


def _fill(path, total, by_map):
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, total)
    if by_map:
        with mmap.mmap(descriptor, total) as shared:
            for number in range(total // MIB):
                shared[number * MIB:(number + 1) * MIB] = _block(number)
            shared.flush()
    else:
        for number in range(total // MIB):
            os.pwrite(descriptor, _block(number), number * MIB)
    os.fsync(descriptor)
    os.close(descriptor)


def _memory(pid):
    """Returns {field: KiB} of the Vm... lines of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return {line.split(":")[0]: int(line.split()[1]) for line in status if line.startswith("Vm")}


@scenario(timeout=180, where="server", loopback=True, alone=True)
def idle_memory(rig):
    """An idle mount takes 12 MiB at most: when it is new, after a load, and after inodes were forgotten."""
    server = rig.serve()
    rig.mount(server, "idle_release=2")
    pid = rig.mounted[rig.mnt].pid
    if _memory(pid)["VmSize"] > 1 << 30:
        pytest.skip("a sanitizer takes memory of its own")

    def idle(when):
        if not processes.wait_until(lambda: _memory(pid)["VmRSS"] <= IDLE_MOST, 60 * rig.slowness, 0.1):
            raise Failure(f"{when}: {_memory(pid)['VmRSS']} KiB resident")
        # Not VmLck, which also counts memory that is mapped and not resident.
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        locked = int(re.search(r"^Locked:\s*(\d+)", rollup, re.MULTILINE)[1])
        check(locked <= IDLE_MOST, f"{when}: {locked} KiB locked")

    idle("a new mount")

    content = b"".join(_block(number) for number in range(32))
    (rig.mnt / "file").write_bytes(content)
    equal((rig.export / "file").read_bytes(), content, "what was written")
    descriptor = os.open(rig.mnt / "file", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, MIB) as page:
        equal(os.preadv(descriptor, [page], 5 * MIB), MIB, "bytes read")
        check(page[:] == content[5 * MIB:6 * MIB], "what was read")
        check(_memory(pid)["VmRSS"] > IDLE_MOST, "the load took no memory: it shows nothing")
        idle("after a load")
        equal(os.preadv(descriptor, [page], 7 * MIB), MIB, "bytes read after the memory was given back")
        check(page[:] == content[7 * MIB:8 * MIB], "what was read after the memory was given back")
    os.close(descriptor)

    count = 30000
    many = rig.export / "many"
    many.mkdir()
    for number in range(count):
        (many / f"file-{number}").touch()
    equal(len([entry.stat() for entry in os.scandir(rig.mnt / "many")]), count, "files")
    before = _memory(pid)["VmRSS"]
    check(before > IDLE_MOST, f"{count} inodes take no memory ({before} KiB in all): they show nothing")
    # Drops the dentries of this mount alone, and so its inodes.
    rig.run(["mount", "-i", "-o", "remount,rw", rig.mnt], cwd="/")
    idle("after inodes were forgotten")
