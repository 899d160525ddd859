"""Ranges of files: fallocate, holes, copies, files without a name; and random calls against a local directory."""

import ctypes
import errno
import os
import random

from rig import SOURCE, check, equal, errno_of, scenario

PAGE = 4096
KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32
libc = ctypes.CDLL(None, use_errno=True)



def fallocate(descriptor, mode, offset, length):
    """fallocate(2); raises OSError."""
    if libc.fallocate(descriptor, mode, ctypes.c_longlong(offset), ctypes.c_longlong(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def _extents(descriptor):
    """Returns [(start, end)] of the data of a file, by SEEK_DATA and SEEK_HOLE."""
    found, place = [], 0
    while True:
        try:
            start = os.lseek(descriptor, place, os.SEEK_DATA)
        except OSError as error:
            equal(error.errno, errno.ENXIO, "SEEK_DATA after the last data")
            return found
        place = os.lseek(descriptor, start, os.SEEK_HOLE)
        found.append((start, place))


def _same_as_local(rig, name, steps):
    """Does `steps` to a file on the mount and to one beside it: errors, contents, holes and sizes are the same."""
    results = []
    for directory in (rig.root, rig.local):
        descriptor = os.open(directory / name, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        outcome = []
        for step in steps:
            outcome.append((errno_of(step, descriptor), os.fstat(descriptor).st_size))
            os.fsync(descriptor)
            # In units of 32 KiB, because a file system may need one more block for the list of a file's extents.
            outcome.append((_extents(descriptor), os.fstat(descriptor).st_blocks // 64))
        data = os.pread(descriptor, 1 << 20, 0)
        os.close(descriptor)
        results.append((outcome, data))
    equal(results[0][0], results[1][0], f"{name}: [(errno, size), (extents, 32 KiB blocks)], the mount and the local file")
    check(results[0][1] == results[1][1], f"{name}: the contents differ from those of a local file")


@scenario(timeout=60)
def ranges(rig):
    """fallocate in every mode, SEEK_HOLE and SEEK_DATA: the same as on the exported file system."""
    k64 = 65536

    def fill(descriptor):
        os.pwrite(descriptor, bytes(range(256)) * (4 * k64 // 256), 0)

    def allocate(mode, offset, length):
        return lambda descriptor: fallocate(descriptor, mode, offset, length)

    _same_as_local(rig, "grow", [allocate(0, 0, k64), allocate(0, k64 + 1, 100), allocate(KEEP, 4 * k64, k64),
                                 allocate(0, 0, 10)])
    _same_as_local(rig, "punch", [fill, allocate(PUNCH | KEEP, k64, k64), allocate(PUNCH | KEEP, 10, 20),
                                  allocate(PUNCH | KEEP, 3 * k64 + 5, 8 * k64), allocate(PUNCH, 0, PAGE)])
    _same_as_local(rig, "zero", [fill, allocate(ZERO, k64 + 7, k64), allocate(ZERO | KEEP, 3 * k64, 4 * k64),
                                 allocate(ZERO, 3 * k64, 4 * k64)])
    _same_as_local(rig, "errors", [allocate(0, 0, 0), allocate(0, -1, 10), allocate(0, 1 << 62, 1 << 62),
                                   allocate(0, 0, (1 << 63) - 1), allocate(0x4000, 0, 10)])
    descriptor = os.open(rig.root / "shift", os.O_CREAT | os.O_RDWR)
    fill(descriptor)
    for mode in () if rig.plain else (COLLAPSE, INSERT):  # the kernel's FUSE refuses them by itself
        equal(errno_of(fallocate, descriptor, mode, k64, k64), errno.EOPNOTSUPP, "collapse and insert")
    os.close(descriptor)
    descriptor = os.open(rig.root / "posix", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(descriptor, 100, 50_000)
    status = os.fstat(descriptor)
    equal((status.st_size, status.st_blocks * 512 >= 50_000), (50_100, True), "posix_fallocate")
    equal(errno_of(os.posix_fallocate, descriptor, 0, 0), errno.EINVAL, "posix_fallocate of nothing")
    equal(errno_of(os.posix_fallocate, descriptor, 1 << 62, 1 << 62), errno.EFBIG, "posix_fallocate beyond all files")
    os.close(descriptor)
    holes = os.open(rig.root / "holes", os.O_CREAT | os.O_WRONLY)  # a descriptor for writing alone can be searched, too
    os.pwrite(holes, b"x", (1 << 33) + 5)
    start = os.lseek(holes, 0, os.SEEK_DATA)
    check(start == 1 << 33, f"data after a hole of 8 GiB at {start}")
    equal(os.lseek(holes, 5, os.SEEK_HOLE), 5, "a hole where one is")
    equal(os.lseek(holes, start, os.SEEK_HOLE), (1 << 33) + 6, "the hole at the end")
    equal(errno_of(os.lseek, holes, (1 << 33) + 6, os.SEEK_DATA), errno.ENXIO, "SEEK_DATA at the end")
    os.close(holes)
    rig.run(["cp", "--sparse=auto", "holes", "copy"])
    check(os.stat(rig.root / "copy").st_blocks < 64, "cp does not see the holes")


@scenario(timeout=60, variants=True)
def copied_ranges(rig):
    """copy_file_range within a file, between files, at odd offsets, beyond the end; cp and O_DSYNC."""
    os.chdir(rig.root)
    data = random.Random(1).randbytes(3_000_001)
    with open("source", "wb") as file:
        file.write(data)
    source = os.open("source", os.O_RDONLY)
    target = os.open("target", os.O_CREAT | os.O_RDWR | os.O_DSYNC)
    os.pread(target, 1, 0)
    done = 0
    while count := os.copy_file_range(source, target, 2_000_000, 1_000_000 + done, 12_345 + done):
        done += count
        check(done <= 2_000_001, "more is copied than there is")
    equal(done, 2_000_001, "bytes copied")
    equal(os.fstat(target).st_size, 12_345 + done, "size")
    check(os.pread(target, 4_000_000, 0) == bytes(12_345) + data[1_000_000:], "what was copied")
    equal(os.copy_file_range(target, target, 1000, 12_345, 0), 1000, "bytes copied within a file")
    check(os.pread(target, 1000, 0) == data[1_000_000:1_001_000], "what was copied within a file")
    equal(errno_of(os.copy_file_range, target, target, 1000, 0, 500), errno.EINVAL, "overlapping ranges")
    equal(errno_of(os.copy_file_range, source, source, 10, 0, 500), errno.EBADF, "a target that is not open to write")
    equal(os.copy_file_range(source, target, 100, len(data), 0), 0, "bytes copied from the end")
    os.close(source)
    os.close(target)
    rig.run(["cp", "source", "copied"])
    rig.run(["cmp", "source", "copied"])
    if rig.behind is not None:
        check((rig.behind / "copied").read_bytes() == data, "the copy in the export")
    os.chdir("/")


@scenario(timeout=60, variants=True)
def nameless(rig):
    """O_TMPFILE: a file without a name, which may be given one, unless O_EXCL; it vanishes when closed."""
    def linked(descriptor, name):
        path = f"/proc/self/fd/{descriptor}".encode()
        if libc.linkat(-100, path, -100, name.encode(), 0x400) != 0:  # AT_FDCWD, AT_SYMLINK_FOLLOW
            raise OSError(ctypes.get_errno(), "linkat")

    os.chdir(rig.root)
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(descriptor, b"hello")
    status = os.fstat(descriptor)
    equal((status.st_nlink, status.st_size, status.st_mode & 0o777), (0, 5, 0o640), "links, size and mode")
    equal(os.listdir("."), [], "names")
    linked(descriptor, "named")
    equal((os.fstat(descriptor).st_nlink, open("named", "rb").read()), (1, b"hello"), "after it got a name")
    os.write(descriptor, b" again")
    os.close(descriptor)
    equal(open("named", "rb").read(), b"hello again", "after the close")
    secret = os.open(".", os.O_TMPFILE | os.O_EXCL | os.O_WRONLY)
    os.write(secret, b"x")
    equal(errno_of(linked, secret, "secret"), errno.ENOENT, "a name for an O_EXCL file")
    os.close(secret)
    equal(errno_of(os.open, "named", os.O_TMPFILE | os.O_RDWR), errno.ENOTDIR, "O_TMPFILE in a file")
    equal(os.listdir("."), ["named"], "names at the end")
    os.chdir("/")


PROGRAM = SOURCE / "tests" / "mount" / "model"


def model_arguments(rig, most, least=20_000):
    # A quick run repeats fixed calls, so that a failure is due to the change. Only full runs search for new failures.
    size = ["--ops", most] if rig.full else ["--ops", least, "--seed", "change"]
    return [*size, *os.environ.get("DAFS_MODEL", "").split()]  # DAFS_MODEL holds the arguments of a run to repeat


@scenario(timeout=7200, variants=True)
def model(rig):
    """20,000 random calls (1,000,000 in a full run) do the same on the mount and on a local directory."""
    rig.run([PROGRAM, *model_arguments(rig, 1_000_000), rig.root, rig.local], cwd="/", timeout=7000)


@scenario(timeout=7200, variants=True)
def model_users(rig):
    """The same by three users with random modes and owners: each has the same rights as on a local directory."""
    rig.run([PROGRAM, *model_arguments(rig, 500_000), "--users", rig.root, rig.local], cwd="/", timeout=7000)


@scenario(timeout=7200, where="server")
def model_shared(rig):
    """The same with two mounts without caches: each sees the changes of the other, as on one machine."""
    here, there = rig.mount_twice("noac,lookupcache=none")
    rig.run([PROGRAM, *model_arguments(rig, 500_000), "--beside", there, here, rig.local], cwd="/", timeout=7000)
