"""Writes that must fail: a full file system, file size limits, wrong descriptors."""

import errno
import mmap
import os
import resource
import signal
import subprocess

import processes
from rig import check, equal, errno_of, scenario
from .ranges import fallocate

PAGE = 4096


def _errors_when_full(rig, root, local, behind):
    """On a file system of 16 MiB every kind of write reports ENOSPC, and earlier data is kept. With write-behind the
    next fsync may report the error of a write."""

    def pwrite_error(data, offset):
        return errno_of(os.pwrite, descriptor, data, offset) or (errno_of(os.fsync, descriptor) if behind else 0)

    block = b"x" * 65536
    descriptor = os.open(root / "fill", os.O_CREAT | os.O_RDWR)
    written, error = 0, 0
    while not error and written < 64 << 20:
        try:
            written += os.write(descriptor, block)
        except OSError as found:
            error = found.errno
    equal(error, errno.ENOSPC, "write to a full file system")
    check(8 << 20 < written < (25 << 20 if behind else 17 << 20), f"{written} bytes were written to 16 MiB")
    size = os.fstat(descriptor).st_size
    equal((local / "fill").stat().st_size, size, "size on the server")
    if behind:
        check(size <= written, f"{size} bytes are on the server, {written} were written")
        equal(errno_of(os.fsync, descriptor), errno.ENOSPC if size < written else 0, "fsync after the writes")
        equal(errno_of(os.fsync, descriptor), 0, "a second fsync")
    else:
        equal(size, written, "size on the server")
    check((local / "fill").read_bytes() == b"x" * size, "the content on the server")
    equal(pwrite_error(block, 32 << 20), errno.ENOSPC, "pwrite")
    equal(errno_of(fallocate, descriptor, 0, 20 << 20, 8 << 20), errno.ENOSPC, "fallocate")
    equal(errno_of(os.posix_fallocate, descriptor, 20 << 20, 8 << 20), errno.ENOSPC, "posix_fallocate")
    log = os.open(root / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for size in (1 << 20, 65536):
        equal(errno_of(os.write, log, b"y" * size), errno.ENOSPC, "append")
        equal(os.fstat(log).st_size, 0, "size after an append that failed: all or nothing")
    os.close(log)
    synced = os.open(root / "fill", os.O_WRONLY | os.O_SYNC)
    equal(errno_of(os.pwrite, synced, block, 32 << 20), errno.ENOSPC, "O_SYNC write")
    os.close(synced)
    for how in ("fsync", "msync", "close"):
        mapped = os.open(root / f"mapped-{how}", os.O_CREAT | os.O_RDWR)
        os.ftruncate(mapped, 1 << 20)
        shared = mmap.mmap(mapped, 1 << 20)
        shared[:] = b"m" * (1 << 20)
        if how == "fsync":
            equal(errno_of(os.fsync, mapped), errno.ENOSPC, "fsync of a map that finds no room")
            check(errno_of(os.fsync, mapped) in (0, errno.ENOSPC), "a second fsync")  # Linux 6.1 reports it twice
            os.unlink(root / "fill")
            os.close(descriptor)
            roomy = processes.wait_until(lambda: os.statvfs(local).f_bfree > 1024, 5)
            check(roomy, "the space of a removed file does not come back")
            shared[:] = b"n" * (1 << 20)
            os.fsync(mapped)
            check((local / "mapped-fsync").read_bytes() == b"n" * (1 << 20), "a map written when there was room again")
            with open(local / "fill", "wb") as filler:
                filler.write(bytes(os.statvfs(local).f_bfree * os.statvfs(local).f_bsize))
            shared.close()
            os.close(mapped)
            descriptor = os.open(root / "fill", os.O_RDONLY)
        elif how == "msync":
            equal(errno_of(shared.flush), errno.ENOSPC, "msync that finds no room")
            shared.close()
            os.close(mapped)
        else:
            equal(errno_of(os.close, mapped), errno.ENOSPC, "close of a map that finds no room")
            shared.close()
    os.close(descriptor)
    rig.expect("ENOSPC", "NOSPC")


@scenario(timeout=90, where="server")
def full(rig):
    """A file system that fills up: write, append, fallocate, fsync, msync and close report it until space is free."""
    disk = rig.base / "disk"
    disk.mkdir()
    rig.run(["mount", "-t", "tmpfs", "-o", "size=16m", "dafs-test", disk], cwd="/")
    try:
        for option in ("write_behind", "nowrite_behind"):
            server = rig.serve([f"/data={disk},rw,no_root_squash"])
            rig.mount(server, option)
            _errors_when_full(rig, rig.mnt, disk, option == "write_behind")
            rig.umount()
            server.stop()
            for name in os.listdir(disk):
                if not name.startswith(".dafsd"):
                    os.unlink(disk / name)
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


@scenario(timeout=60, where="server")
def full_pages(rig):
    """Some pages of a map fit on the disk and some do not: msync and fsync report it, whichever pages fail."""
    disk = rig.base / "disk"
    disk.mkdir()
    rig.run(["mount", "-t", "tmpfs", "-o", "size=2m", "dafs-test", disk], cwd="/")
    try:
        rig.mount(rig.serve([f"/data={disk},rw,no_root_squash"]))
        for how in ("msync", "fsync"):
            descriptor = os.open(rig.mnt / how, os.O_CREAT | os.O_RDWR)
            os.ftruncate(descriptor, 1 << 20)
            (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bfree * os.statvfs(disk).f_bsize - (600 << 10)))
            with mmap.mmap(descriptor, 1 << 20) as shared:
                shared[:] = b"m" * (1 << 20)
                told = errno_of(shared.flush) if how == "msync" else errno_of(os.fsync, descriptor)
            equal(told, errno.ENOSPC, f"{how} of 1 MiB of pages where there is room for 600 KiB")
            os.close(descriptor)
            os.unlink(rig.mnt / how)
            os.unlink(disk / "filler")
        rig.umount()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
    rig.expect("ENOSPC", "NOSPC")


@scenario(timeout=60, variants=True)
def limits(rig):
    """truncate and write at every border: RLIMIT_FSIZE, EFBIG, beyond 4 GiB, past the end, wrong descriptors."""
    os.chdir(rig.root)
    descriptor = os.open("file", os.O_CREAT | os.O_RDWR)
    gib4 = 1 << 32
    for size in (0, 1, PAGE - 1, PAGE + 1, gib4 - 1, gib4, gib4 + 4097, 5, 0):
        os.ftruncate(descriptor, size)
        equal(os.stat("file").st_size, size, "size after ftruncate")
        os.truncate("file", size + 3)
        equal(os.fstat(descriptor).st_size, size + 3, "size after truncate")
        equal(os.pread(descriptor, 10, size), b"\0\0\0", "what ftruncate added")
    os.ftruncate(descriptor, 10_000)
    os.pwrite(descriptor, b"x" * 10_000, 0)
    os.ftruncate(descriptor, 5_001)
    os.ftruncate(descriptor, 20_000)
    equal(os.pread(descriptor, 20_000, 0), b"x" * 5_001 + bytes(14_999), "cut and made longer")
    os.pwrite(descriptor, b"far", gib4 * 2 + 1)
    equal((os.pread(descriptor, 5, gib4 * 2 - 1), os.fstat(descriptor).st_size), (b"\0\0far", gib4 * 2 + 4), "8 GiB")
    for offset in (gib4 * 2 + 4, gib4 * 3, (1 << 62)):
        equal(os.pread(descriptor, 100, offset), b"", "read past the end")
    equal(errno_of(os.ftruncate, descriptor, (1 << 63) - 1), errno.EFBIG, "ftruncate to the end of the world")
    equal(errno_of(os.truncate, "file", -1), errno.EINVAL, "truncate to less than nothing")
    equal(errno_of(os.pwrite, descriptor, b"xx", (1 << 63) - 2) in (errno.EFBIG, errno.EINVAL), True, "pwrite there")
    os.ftruncate(descriptor, 0)
    read_only = os.open("file", os.O_RDONLY)
    equal(errno_of(os.ftruncate, read_only, 5), errno.EINVAL, "ftruncate of a read-only descriptor")
    equal(errno_of(os.posix_fallocate, read_only, 0, 5), errno.EBADF, "posix_fallocate of a read-only descriptor")
    os.close(read_only)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        equal(errno_of(os.ftruncate, descriptor, 50_001), errno.EFBIG, "ftruncate beyond RLIMIT_FSIZE")
        os.ftruncate(descriptor, 50_000)
        equal(os.pwrite(descriptor, b"y" * 100, 49_950), 50, "pwrite up to RLIMIT_FSIZE")
        equal(errno_of(os.pwrite, descriptor, b"y", 50_000), errno.EFBIG, "pwrite beyond RLIMIT_FSIZE")
        equal(errno_of(os.posix_fallocate, descriptor, 0, 50_001), errno.EFBIG, "posix_fallocate beyond RLIMIT_FSIZE")
        log = os.open("file", os.O_WRONLY | os.O_APPEND)
        equal(errno_of(os.write, log, b"z"), errno.EFBIG, "append beyond RLIMIT_FSIZE")
    processes.fork_all([limited])
    os.close(descriptor)
    os.chdir("/")


@scenario(timeout=60, where="server")
def names_full(rig):
    """A file system without room for one more file: each call that creates one fails with ENOSPC and leaves nothing."""
    small = rig.base / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777,size=8m,nr_inodes=60", "dafs-test", small], check=True)
    try:
        root = rig.mount(rig.serve([f"/data={small},rw,no_root_squash"]))
        (root / "d").mkdir()
        made = 0
        while errno_of(os.mknod, root / f"file{made}") == 0:
            made += 1
        check(20 < made < 60, f"{made} files were made")
        names = sorted(os.listdir(root))
        for name, call in {"mkdir": os.mkdir, "mkfifo": os.mkfifo, "mknod": os.mknod,
                           "symlink": lambda path: os.symlink("target", path),
                           "open": lambda path: os.close(os.open(path, os.O_CREAT | os.O_RDWR)),
                           "exclusive": lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
                           "socket": lambda path: os.mknod(path, 0o140644)}.items():
            for where in (root, root / "d"):
                equal(errno_of(call, where / name), errno.ENOSPC, f"{name} without room")
                check(not os.path.lexists(where / name), f"{name} left something")
        equal(sorted(os.listdir(root)), names, "names after all the failures")
        os.unlink(root / "file0")
        roomy = processes.wait_until(lambda: errno_of(os.mkdir, root / "again") == 0, 5)
        check(roomy, "no room after a file was removed")
    finally:
        rig.umount()
        rig.servers[0].stop()
        subprocess.run(["umount", small], check=True)
