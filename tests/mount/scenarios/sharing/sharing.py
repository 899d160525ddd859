"""One file used from two mounts: close-to-open, separate ranges, shared maps, removal elsewhere."""

import ctypes
import errno
import mmap
import os
import subprocess

import pytest

import processes
from rig import check, equal, scenario

PAGE = 4096
AT_SYMLINK_FOLLOW = 0x400
libc = ctypes.CDLL(None, use_errno=True)


@scenario(timeout=60, where="server")
def coherence(rig):
    """Close-to-open: an open sees everything that the other mount had written by its close, whatever the times show."""
    here, there = rig.mount_twice()
    for round_ in range(60):
        writer, reader = (here, there) if round_ % 2 else (there, here)
        data = bytes([round_]) * 10_000
        with open(writer / "file", "r+b" if round_ else "w+b") as file:
            file.write(data)
        if round_ % 3 == 0:
            os.utime(writer / "file", ns=(1, 1))  # size and mtime are those of the round before
        for flags in (os.O_RDONLY, os.O_RDONLY, os.O_RDONLY | os.O_DIRECT, os.O_RDWR):
            descriptor = os.open(reader / "file", flags)
            block = mmap.mmap(-1, 3 * PAGE)
            equal(os.readv(descriptor, [block]), 10_000, "bytes read")
            check(block[:10_000] == data, f"round {round_}: what the other mount wrote is not seen")
            equal(os.fstat(descriptor).st_size, 10_000, "size")
            os.close(descriptor)
    with open(here / "file", "r+b") as file:
        file.truncate(100)
    equal((there / "file").read_bytes(), bytes([59]) * 100, "after a truncation by the other mount")
    held = os.open(there / "file", os.O_RDONLY)
    os.pread(held, 100, 0)
    with open(here / "file", "r+b") as file:
        file.write(b"x" * 200)
    direct = os.open(there / "file", os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, PAGE)
    with open(here / "file", "r+b") as file:
        file.write(b"y" * 200)
        file.flush()
        os.fsync(file.fileno())  # until then it may be on its way
        equal((os.preadv(direct, [block], 0), block[:200]), (200, b"y" * 200), "O_DIRECT asks the server each time")
    os.close(held)
    os.close(direct)


@scenario(timeout=60, where="server", variants=True)
def separate_ranges(rig):
    """Eight writers on two mounts write separate ranges of one file, not aligned to pages: no byte is lost."""
    points = rig.mount_twice()
    part, count = 10_007, 40
    (points[0] / "file").touch()

    def writer(number):
        flags = os.O_RDWR if number % 2 else os.O_WRONLY
        descriptor = os.open(points[number // 4] / "file", flags)
        for index in range(count):
            place = (index * 8 + number) * part
            data = bytes([number * 16 + index % 16]) * part
            if index % 2:
                equal(os.pwritev(descriptor, [data[:1000], data[1000:]], place), part, "pwritev")
            else:
                equal(os.pwrite(descriptor, data, place), part, "pwrite")
            if flags == os.O_RDWR:
                first, second = bytearray(10), bytearray(part)
                os.preadv(descriptor, [first, second], place)
                check(bytes(first) + bytes(second[:part - 10]) == data, "an own write is not read")
        os.fsync(descriptor)
        os.close(descriptor)

    processes.fork_all([lambda number=number: writer(number) for number in range(8)])
    expected = b"".join(bytes([number * 16 + index % 16]) * part for index in range(count) for number in range(8))
    check((rig.export / "file").read_bytes() == expected, "the exported file")
    for point in points:
        check((point / "file").read_bytes() == expected, "the file on a mount")


@scenario(timeout=60, where="server", variants=True)
def maps_and_mounts(rig):
    """Shared maps: two processes on one mount, on O_DIRECT and O_APPEND opens, and msync between two mounts."""
    here, there = rig.mount_twice()
    size = 16 * PAGE
    (here / "file").write_bytes(bytes(size))
    for flags in (os.O_RDWR, os.O_RDWR | os.O_DIRECT, os.O_RDWR | os.O_APPEND):
        descriptor = os.open(here / "file", flags)
        other = os.open(here / "file", os.O_RDWR)
        try:
            shared = mmap.mmap(descriptor, size)
        except OSError as error:
            equal(error.errno, errno.ENODEV, "mmap")
            pytest.skip("this kernel maps nothing that is opened for direct I/O")
        with shared, mmap.mmap(other, size) as second:
            def child():
                shared[5:10] = b"child"
                second[PAGE:PAGE + 5] = b"other"
            processes.fork_all([child])
            equal((second[5:10], shared[PAGE:PAGE + 5]), (b"child", b"other"), "what another process wrote")
            shared.flush()
            data = (there / "file").read_bytes()
            equal((data[5:10], data[PAGE:PAGE + 5]), (b"child", b"other"), "msync, read on the other mount")
            if not flags & os.O_APPEND:
                block = mmap.mmap(-1, PAGE)
                block.write(b"w" * PAGE)
                os.pwritev(descriptor, [block], 2 * PAGE)
                equal(second[2 * PAGE:2 * PAGE + 1], b"w", "map of what was written")
        os.close(descriptor)
        os.close(other)
        (here / "file").write_bytes(bytes(size))
    with open(there / "file", "r+b") as file, mmap.mmap(file.fileno(), size) as shared:
        shared[:5] = b"there"
        shared.flush()
        equal((here / "file").read_bytes()[:5], b"there", "msync on the second mount, read on the first")


@scenario(timeout=60, where="server")
def unlinked_elsewhere(rig):
    """A file removed or replaced on one mount stays usable where it is open on the other, then its space is freed.

    Shows DAFS-6.5.33-08, DAFS-6.5.7-02."""
    disk = rig.base / "disk"
    disk.mkdir()
    rig.run(["mount", "-t", "tmpfs", "-o", "size=64m", "dafs-test", disk], cwd="/")
    try:
        server = rig.serve([f"/data={disk},rw,no_root_squash"])
        second = rig.base / "mnt2"
        second.mkdir()
        here, there = rig.mount(server), rig.mount(server, point=second)
        (here / "sub").mkdir()
        free = os.statvfs(disk).f_bfree
        for how in ("unlink", "rename"):
            name = here / "sub" / how
            name.write_bytes(b"kept" * (1 << 20))
            held = [os.open(there / "sub" / how, os.O_RDWR) for _ in range(2)]
            if how == "unlink":
                name.unlink()
            else:
                (here / "sub" / "new").write_bytes(b"new")
                os.rename(here / "sub" / "new", name)
            equal(os.pread(held[0], 8, 4096), b"keptkept", f"read after the {how} on the other mount")
            os.pwrite(held[0], b"changed", 3 << 20)
            os.ftruncate(held[1], (4 << 20) + 5)
            os.fsync(held[0])
            equal((os.pread(held[1], 7, 3 << 20), os.fstat(held[1]).st_size), (b"changed", (4 << 20) + 5), "change")
            equal(os.fstat(held[0]).st_nlink, 0, "links")
            source, target = f"/proc/self/fd/{held[0]}".encode(), bytes(there / "sub" / "again")
            equal((libc.linkat(-100, source, -100, target, AT_SYMLINK_FOLLOW), ctypes.get_errno()), (-1, errno.ENOENT),
                  "a new name for it")
            again = os.open(f"/proc/self/fd/{held[0]}", os.O_RDONLY)
            equal(os.pread(again, 7, 3 << 20), b"changed", "opened again by its descriptor")
            names = [entry for point in (here, there, here / "sub") for entry in os.listdir(point)]
            equal([entry for entry in names if entry not in ("sub", "rename")], [], "names that are seen")
            os.close(again)
            os.close(held[0])
            equal(os.pread(held[1], 7, 3 << 20), b"changed", "read after one of two closes")
            check(os.statvfs(disk).f_bfree < free - 512, "the space is free before the last close")
            os.close(held[1])
            freed = processes.wait_until(lambda: os.statvfs(disk).f_bfree >= free - 2, 5)
            check(freed, f"after the last close {free - os.statvfs(disk).f_bfree} blocks are still taken")
            if how == "rename":
                equal((there / "sub" / how).read_bytes(), b"new", "the file that came instead")
                name.unlink()
        # close(2) does not wait for the last descriptor's close at the server, which may come after the removal.
        orphans = disk / ".dafsd-orphans"
        check(processes.wait_until(lambda: not os.listdir(orphans), 5), f"removed files that are left: {os.listdir(orphans)}")
        equal(sorted(os.listdir(disk)), [".dafsd-orphans", "sub"], "names in the export")
        for point in (there, here):
            rig.umount(point)
        for server in rig.servers:
            server.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


@scenario(timeout=60, where="server")
def data_differences(rig):
    """The statements of mount.dafs(8) about data under DIFFERENCES, row by row."""
    here, there = rig.mount_twice()
    ours, theirs = (os.open(point / "log", os.O_CREAT | os.O_RDWR | os.O_APPEND) for point in (here, there))
    os.write(ours, b"one")
    os.write(theirs, b"two")
    os.write(ours, b"three")
    equal(os.pread(ours, 99, 0), b"onetwothree", "appends of two mounts")
    equal(os.lseek(ours, 0, os.SEEK_CUR), 8, "offset after the end that this mount knew")
    equal(os.lseek(ours, 0, os.SEEK_END), 11, "SEEK_END")
    plain = os.open(here / "log", os.O_RDWR)
    os.pwritev(plain, [b"!"], 0, os.RWF_APPEND)
    equal(os.pread(plain, 99, 0), b"onetwothree!", "RWF_APPEND when the end is known")
    os.write(theirs, b"unknown")
    os.pwritev(plain, [b"?"], 0, os.RWF_APPEND)
    equal(os.pread(plain, 99, 0), b"onetwothree!?nknown", "RWF_APPEND when it is not")
    try:
        os.pwritev(ours, [b"end"], 0, 0x20)  # RWF_NOAPPEND, Linux 6.9
        equal((rig.export / "log").read_bytes()[-3:], b"end", "RWF_NOAPPEND")
    except OSError as error:
        equal(error.errno, errno.EOPNOTSUPP, "RWF_NOAPPEND")
    known = os.fstat(plain).st_size
    os.write(theirs, b"unknown too")
    copied = os.open(here / "copied", os.O_CREAT | os.O_RDWR)
    equal(os.copy_file_range(plain, copied, 99, known - 2, 0), 2, "copied up to the end that is known")
    direct = os.open(here / "log", os.O_RDONLY | os.O_DIRECT)
    equal(os.pread(direct, 5, 1), b"netwo", "O_DIRECT at an odd place")
    (here / "directory").mkdir()
    held = os.open(here / "directory", os.O_RDONLY)
    (here / "directory").rmdir()
    equal(os.fstat(held).st_nlink, 0, "links of a removed directory")
    for descriptor in (ours, theirs, plain, copied, direct, held):
        os.close(descriptor)
