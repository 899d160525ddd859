"""Files and directories through plain system calls: what POSIX promises of rename, unlink, append, times, holes."""

import errno
import os
import stat
import time

import processes
from rig import Failure, check, equal, errno_of, scenario


@scenario(timeout=60, variants=True)
def semantics(rig):
    """Rename, unlink, link, open modes, append, truncate, times and their errors."""
    os.chdir(rig.root)
    for part in (_renames, _unlinks, _links, _opens, _times, _directories):
        os.mkdir(part.__name__)
        os.chdir(part.__name__)
        part(rig)
        os.chdir(rig.root)


def _write(name, data=b""):
    with open(name, "wb") as file:
        file.write(data)


def _renames(_rig):
    _write("a", b"a")
    _write("b", b"b")
    inode = os.stat("a").st_ino
    os.rename("a", "b")
    equal((os.listdir("."), os.stat("b").st_ino, open("b", "rb").read()), (["b"], inode, b"a"), "rename over a file")
    os.mkdir("d")
    os.mkdir("e")
    _write("e/x")
    equal(errno_of(os.rename, "d", "d/inside"), errno.EINVAL, "rename into itself")
    equal(errno_of(os.rename, "d", "e") in (errno.ENOTEMPTY, errno.EEXIST), True, "rename over a full directory")
    equal(errno_of(os.rename, "b", "d"), errno.EISDIR, "rename of a file over a directory")
    equal(errno_of(os.rename, "d", "b"), errno.ENOTDIR, "rename of a directory over a file")
    equal(errno_of(os.rename, "none", "b"), errno.ENOENT, "rename of nothing")
    os.rename("e", "d")
    equal(sorted(os.listdir("d")), ["x"], "rename over an empty directory")
    os.link("b", "c")
    os.rename("b", "c")  # two names of one file: nothing happens
    equal(sorted(os.listdir(".")), ["b", "c", "d"], "rename between two names of one file")
    held = os.open("b", os.O_RDONLY)
    os.rename("b", "d/b")
    equal(os.read(held, 9), b"a", "an open file that was renamed")
    os.close(held)


def _unlinks(_rig):
    _write("open", b"still here")
    held = os.open("open", os.O_RDWR)
    os.unlink("open")
    equal(errno_of(os.stat, "open"), errno.ENOENT, "stat of an unlinked file")
    equal(os.pread(held, 99, 0), b"still here", "read of an unlinked open file")
    os.pwrite(held, b"changed   ", 0)
    os.fsync(held)
    equal(os.pread(held, 99, 0), b"changed   ", "write to an unlinked open file")
    equal(os.fstat(held).st_nlink, 0, "links of an unlinked open file")
    _write("open", b"another")
    equal(os.pread(held, 7, 0), b"changed", "an unlinked open file beside a new one of its name")
    os.close(held)
    equal(os.listdir("."), ["open"], "directory after the close")
    os.mkdir("d")
    _write("d/x")
    equal(errno_of(os.rmdir, "d") in (errno.ENOTEMPTY, errno.EEXIST), True, "rmdir of a full directory")
    equal(errno_of(os.rmdir, "open"), errno.ENOTDIR, "rmdir of a file")
    equal(errno_of(os.unlink, "d"), errno.EISDIR, "unlink of a directory")
    os.unlink("d/x")
    os.rmdir("d")
    equal(errno_of(os.unlink, "none"), errno.ENOENT, "unlink of nothing")


def _links(rig):
    _write("one", b"x" * 10)
    for number in range(9):
        os.link("one", f"link{number}")
    status = os.stat("link8")
    equal((status.st_nlink, status.st_ino), (10, os.stat("one").st_ino), "hard links")
    os.unlink("one")
    equal(os.stat("link0").st_nlink, 9, "links after an unlink")
    equal(errno_of(os.link, "link0", "link1"), errno.EEXIST, "link over a name")
    os.symlink("link0", "soft")
    equal((os.readlink("soft"), os.lstat("soft").st_size), ("link0", 5), "symlink")
    longest = 500 if "msgsize=1024" in rig.options else 4000  # a target travels in one message
    os.symlink("y" * longest, "far")
    equal(os.readlink("far"), "y" * longest, f"symlink of {longest} bytes")
    os.symlink("loop", "loop")
    equal(errno_of(open, "loop"), errno.ELOOP, "open of a loop")
    equal(errno_of(os.readlink, "link0"), errno.EINVAL, "readlink of a file")
    equal(errno_of(open, "link0/x"), errno.ENOTDIR, "a file as a directory")


def _opens(_rig):
    held = os.open("new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    equal(stat.S_IMODE(os.fstat(held).st_mode), 0o640, "mode of a new file")
    equal(errno_of(os.open, "new", os.O_CREAT | os.O_EXCL | os.O_RDWR), errno.EEXIST, "exclusive create")
    os.write(held, b"0123456789")
    os.ftruncate(held, 4)
    os.ftruncate(held, 8)
    equal(os.pread(held, 99, 0), b"0123\0\0\0\0", "truncated and extended")
    os.pwrite(held, b"end", 100_000)
    equal(os.pread(held, 4, 50_000), b"\0\0\0\0", "hole")
    equal(os.fstat(held).st_size, 100_003, "size")
    equal(os.pread(held, 10, 200_000), b"", "read past the end")
    os.close(held)
    _write("new", b"short")  # O_TRUNC
    equal(os.stat("new").st_size, 5, "size after O_TRUNC")
    read_only = os.open("new", os.O_RDONLY)
    equal(errno_of(os.write, read_only, b"x"), errno.EBADF, "write to a read-only descriptor")
    os.close(read_only)
    equal(errno_of(os.open, ".", os.O_WRONLY), errno.EISDIR, "directory opened to write")
    equal(errno_of(os.open, "new", os.O_RDONLY | os.O_DIRECTORY), errno.ENOTDIR, "file opened as a directory")
    append = [os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for _ in range(2)]
    for number in range(200):
        os.write(append[number % 2], f"{number:06}\n".encode())
    for descriptor in append:
        os.close(descriptor)
    equal(open("log", encoding="ascii").read().split(), [f"{n:06}" for n in range(200)], "two appending descriptors")


def _times(_rig):
    before = time.time_ns() - 2_000_000_000
    _write("t")
    status = os.stat("t")
    check(before < status.st_mtime_ns < time.time_ns() + 2_000_000_000, "mtime of a new file is not now")
    os.utime("t", ns=(1_111_111_111_222_222_222, 3_333_333_333_444_444_444))
    status = os.stat("t")
    equal((status.st_atime_ns, status.st_mtime_ns), (1_111_111_111_222_222_222, 3_333_333_333_444_444_444),
          "times to the nanosecond")
    os.chmod("t", 0o4755)
    equal(os.stat("t").st_mode, stat.S_IFREG | 0o4755, "chmod")
    check(os.stat("t").st_mtime_ns == 3_333_333_333_444_444_444, "chmod changed mtime")
    check(os.stat("t").st_ctime_ns >= status.st_ctime_ns, "ctime went back")
    with open("t", "ab") as file:
        file.write(b"x")
    check(abs(os.stat("t").st_mtime_ns - time.time_ns()) < 60_000_000_000, "a write did not set mtime")
    directory = os.stat(".").st_mtime_ns
    _write("t2")
    check(os.stat(".").st_mtime_ns > directory, "a new name did not change the directory's mtime")


def _directories(_rig):
    os.makedirs("a/b/c")
    equal(os.stat("a").st_nlink, 3, "links of a directory with one directory in it")
    equal(errno_of(os.mkdir, "a"), errno.EEXIST, "mkdir over a name")
    equal(errno_of(os.mkdir, "x/y"), errno.ENOENT, "mkdir in nothing")
    for number in range(300):
        _write(f"a/n{number:03}")
    seen = set()
    with os.scandir("a") as entries:  # removing while reading: each name is listed once
        for entry in entries:
            if entry.is_file():
                check(entry.name not in seen, f"{entry.name} is listed twice")
                seen.add(entry.name)
                os.unlink(entry.path)
    equal(len(seen), 300, "names seen while removing them")
    equal(os.listdir("a"), ["b"], "directory after removing")
    descriptor = os.open("a", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.rmdir("a/b/c")
    os.close(descriptor)


@scenario(timeout=400)
def directory(rig):
    """A directory of 100,000 entries (20,000 in a quick run): made, listed, stat-ed, removed."""
    count = 100_000 if rig.full else 20_000
    big = rig.root / "big"
    big.mkdir()
    base = os.open(big, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        os.close(os.open(f"entry-{number:06}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=base))
    os.close(base)
    listed = rig.run(["ls", "-f", str(big)]).split() if count <= 20_000 else os.listdir(big) + [".", ".."]
    equal(len(listed), count + 2, "entries listed")
    equal(len(set(listed)), count + 2, "different entries listed")
    total = int(rig.run(["sh", "-c", "ls -l big | grep -c ' entry-'"]))
    equal(total, count, "entries of ls -l")
    equal(int(rig.run(["sh", "-c", "find big -type f -size 0 -links 1 | wc -l"])), count, "entries of find")
    if rig.behind is not None:
        equal(set(os.listdir(rig.behind / "big")), set(listed) - {".", ".."}, "entries in the export")
    rig.run(["rm", "-r", str(big)])
    equal(errno_of(os.stat, big), errno.ENOENT, "the directory after rm -r")


GIB = 1 << 30


@scenario(timeout=300)
def sparse(rig):
    """A file of 5 GiB with holes: small on disk, right at every edge."""
    path = rig.root / "sparse"
    marks = {0: b"start", GIB + 123: b"x" * 70_000, 2 * GIB - 3: b"across 2^31", 4 * GIB - 5: b"across 2^32",
             5 * GIB - 4096: b"z" * 4096}
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, 5 * GIB)
    for offset, data in marks.items():
        equal(os.pwrite(descriptor, data, offset), len(data), f"bytes written at {offset}")
    os.fsync(descriptor)
    os.close(descriptor)
    equal(os.stat(path).st_size, 5 * GIB, "size")
    check(int(rig.run(["du", "-k", str(path)]).split()[0]) < 2048, "du counts the holes")
    descriptor = os.open(path, os.O_RDONLY)
    for offset, data in marks.items():
        equal(os.pread(descriptor, len(data), offset), data, f"bytes at {offset}")
        around = max(offset - 4096, 0)
        expected = bytearray(4096 + len(data) + 4096)
        expected[offset - around:offset - around + len(data)] = data
        window = os.pread(descriptor, len(expected), around)
        equal(window, bytes(expected[:min(len(expected), 5 * GIB - around)]) if offset else window, f"around {offset}")
    step = 1 << 20
    for offset in range(0, 5 * GIB, step if rig.full else 64 * step):
        window = os.pread(descriptor, step, offset)
        expected = len(window) - sum(min(o + len(d), offset + step) - max(o, offset) for o, d in marks.items()
                                     if o < offset + step and o + len(d) > offset)
        check(len(window) == step and window.count(0) == expected, f"bytes of the MiB at {offset}")
    equal(os.pread(descriptor, 10, 5 * GIB), b"", "read at the end")
    os.close(descriptor)
    os.truncate(path, 4 * GIB)
    equal(os.stat(path).st_size, 4 * GIB, "size after truncate")


@scenario(timeout=90, variants=True)
def append(rig):
    """Four processes appending to one file: every line there, none torn."""
    path = rig.root / "log"
    path.touch()
    children = []
    for writer in range(4):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
                for number in range(300):
                    os.write(descriptor, f"{writer}:{number:05}:{'x' * (number % 90)}\n".encode())
                os.close(descriptor)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    for pid in children:
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of a writer")
    lines = path.read_text(encoding="ascii").splitlines()
    expected = {f"{w}:{n:05}:{'x' * (n % 90)}" for w in range(4) for n in range(300)}
    equal(len(lines), len(expected), "lines")
    equal(set(lines) ^ expected, set(), "lines that are torn or missing")


@scenario(timeout=30)
def statfs(rig):
    """df and statvfs report the size of the exported file system."""
    found = os.statvfs(rig.root)
    check(found.f_namemax == 255, f"f_namemax {found.f_namemax}")
    check(found.f_blocks > 0 and found.f_bavail <= found.f_blocks, "blocks")
    rig.run(["df", str(rig.root)])
    rig.run(["df", "-i", str(rig.root)])
    if rig.behind is not None:
        real = os.statvfs(rig.behind)
        equal(found.f_blocks * found.f_frsize, real.f_blocks * real.f_frsize, "bytes in all")
        equal(found.f_files, real.f_files, "inodes in all")
        near = abs(found.f_bavail * found.f_frsize - real.f_bavail * real.f_frsize)
        check(near < 1 << 30, f"free bytes differ by {near}")


@scenario(timeout=60)
def killed(rig):
    """kill -9 of a process in the middle of a large read frees it at once."""
    path = rig.root / "large"
    with open(path, "wb") as file:
        file.truncate(256 << 20)
    reader = os.fork()
    if reader == 0:
        try:
            while True:
                with open(path, "rb", buffering=0) as file:
                    while file.read(1 << 20):
                        pass
        finally:
            os._exit(1)
    processes.wait_until(lambda: False, 0.3)  # let it read for a while
    os.kill(reader, 9)
    gone = []
    processes.wait_until(lambda: bool(gone.append(os.waitpid(reader, os.WNOHANG)[0]) or gone[-1]), 5)
    if not gone[-1]:
        raise Failure("a killed reader still runs after 5 s")
    path.unlink()
