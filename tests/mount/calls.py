"""File system calls by name, each with a result that can be compared. tests/mount/model makes them on two
directories."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import stat
import struct

libc = ctypes.CDLL(None, use_errno=True)
PAGE = 4096
FLOCK = "hhqqi4x"  # struct flock with 64-bit offsets
NOBODY = 0xFFFFFFFF  # in an ACL entry that names no user or group
# Linux 6.6 is the first kernel that maps files opened by FUSE for direct I/O, as mount.dafs opens files for appends.
MAPS_APPENDS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 6)


def pattern(seed, size):
    """Bytes that repeat a block made from the seed, so that their origin can be recognised; cheap to make."""
    block = hashlib.sha256(str(seed).encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "")


def facts(status):
    """The fields of a stat that must be equal on both sides."""
    size = status.st_size if not stat.S_ISDIR(status.st_mode) else None
    links = status.st_nlink
    return (oct(status.st_mode), links, status.st_uid, status.st_gid, size)


class Side:
    """One of the two directories, as one process uses it. It has a method for each call, which returns the result to
    compare."""

    def __init__(self, root, two_mounts=False):
        self.root = root
        self.two_mounts = two_mounts
        self.open_files = {}  # slot: descriptor
        self.maps = {}  # slot: map

    def path(self, name):
        return os.path.join(self.root, name)

    def descriptor(self, slot):
        if slot not in self.open_files:
            raise OSError(errno.EBADF, "")
        return self.open_files[slot]

    def open(self, slot, name, flags, mode):
        self.close(slot, True)
        self.open_files[slot] = os.open(self.path(name), flags | os.O_CLOEXEC, mode)
        return facts(os.fstat(self.open_files[slot]))

    def tmpfile(self, slot, name, mode):
        self.close(slot, True)
        self.open_files[slot] = os.open(self.path(name), os.O_TMPFILE | os.O_RDWR, mode)
        return facts(os.fstat(self.open_files[slot]))

    def name_it(self, slot, name):
        source = f"/proc/self/fd/{self.descriptor(slot)}".encode()
        checked(libc.linkat(-100, source, -100, self.path(name).encode(), 0x400))

    def close(self, slot, quiet=False):
        if slot in self.maps:
            self.maps.pop(slot).close()
        if quiet and slot not in self.open_files:
            return
        descriptor = self.descriptor(slot)
        del self.open_files[slot]
        os.close(descriptor)

    def write(self, slot, size, seed):
        descriptor = self.descriptor(slot)
        written = os.write(descriptor, pattern(seed, size))
        self.settle(descriptor)
        return written, os.lseek(descriptor, 0, os.SEEK_CUR)

    def settle(self, descriptor):
        """The offset after an append while the other mount appends too. The manual names this difference."""
        if self.two_mounts and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            os.lseek(descriptor, 0, os.SEEK_END)

    def pwrite(self, slot, offset, size, seed):
        return os.pwrite(self.descriptor(slot), pattern(seed, size), offset)

    def writev(self, slot, sizes, seed):
        descriptor = self.descriptor(slot)
        written = os.writev(descriptor, [pattern(f"{seed}.{n}", size) for n, size in enumerate(sizes)])
        self.settle(descriptor)
        return written

    def read(self, slot, size):
        return os.read(self.descriptor(slot), size)

    def pread(self, slot, offset, size):
        return os.pread(self.descriptor(slot), size, offset)

    @contextlib.contextmanager
    def direct(self, slot):
        """The descriptor, which is O_DIRECT inside."""
        descriptor = self.descriptor(slot)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        try:
            yield descriptor
        finally:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)

    def direct_write(self, slot, page, pages, seed):
        with self.direct(slot) as descriptor, mmap.mmap(-1, pages * PAGE) as aligned:
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
                return "the end is not aligned"
            aligned[:] = pattern(seed, len(aligned))
            return os.pwritev(descriptor, [aligned], page * PAGE)

    def direct_read(self, slot, page, pages):
        with self.direct(slot) as descriptor, mmap.mmap(-1, pages * PAGE) as aligned:
            return os.preadv(descriptor, [aligned], page * PAGE), aligned[:]

    def readv(self, slot, sizes):
        buffers = [bytearray(size) for size in sizes]
        return os.readv(self.descriptor(slot), buffers), b"".join(buffers)

    def seek(self, slot, offset, whence):
        if stat.S_ISDIR(self.status(slot).st_mode):
            return None  # positions in a directory are its file system's own
        return os.lseek(self.descriptor(slot), offset, whence)

    def find(self, slot, offset, whence):
        """SEEK_DATA and SEEK_HOLE. The file system chooses where data lies, so only the range of the answer is
        checked."""
        descriptor = self.descriptor(slot)
        status = self.status(slot)
        if not stat.S_ISREG(status.st_mode):
            return
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        size = status.st_size
        try:
            found = os.lseek(descriptor, offset, whence)
            assert offset <= found <= size, f"offset {found} for {offset} of {size}"
        except OSError as error:
            assert error.errno in (errno.ENXIO, errno.EINVAL), error
        os.lseek(descriptor, before, os.SEEK_SET)

    def truncate(self, name, size):
        os.truncate(self.path(name), size)

    def ftruncate(self, slot, size):
        os.ftruncate(self.descriptor(slot), size)

    def fallocate(self, slot, mode, offset, length):
        checked(libc.fallocate(self.descriptor(slot), mode, ctypes.c_longlong(offset), ctypes.c_longlong(length)))

    def copy(self, source, target, offset_in, offset_out, count):
        if self.two_mounts:
            self.status(source)  # so that the kernel knows the end: a difference that the manual names
        return os.copy_file_range(self.descriptor(source), self.descriptor(target), count, offset_in, offset_out)

    def far(self, slot, offset, seed):
        """Beyond 4 GiB and back: files stay small enough to be compared."""
        descriptor = self.descriptor(slot)
        size = self.status(slot).st_size
        try:
            os.pwrite(descriptor, pattern(seed, 100), offset)
            result = os.pread(descriptor, 200, offset - 50), self.status(slot).st_size
        finally:
            os.ftruncate(descriptor, size)
        return result

    def map(self, slot):
        descriptor = self.descriptor(slot)
        if not MAPS_APPENDS and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            return "not on this kernel"
        if slot in self.maps:
            self.maps.pop(slot).close()
        status = self.status(slot)
        size = PAGE if stat.S_ISDIR(status.st_mode) else status.st_size  # a directory's size is its file system's own
        if size == 0:
            return "empty"
        self.maps[slot] = mmap.mmap(descriptor, size)
        return size

    def map_write(self, slot, offset, size, seed):
        room = self.map_room(slot) - offset
        if room <= 0:
            return "no room"
        self.maps[slot][offset:offset + min(size, room)] = pattern(seed, min(size, room))
        return min(size, room)

    def map_read(self, slot, offset, size):
        room = self.map_room(slot) - offset
        return self.maps[slot][offset:offset + min(size, room)] if room > 0 else "no room"

    def map_room(self, slot):
        if slot not in self.maps:
            return 0
        return min(len(self.maps[slot]), self.status(slot).st_size)

    def sync_map(self, slot):
        if slot in self.maps:
            self.maps[slot].flush()

    def range_of(self, slot, kind, start, length):
        """The descriptor, or None if its file has no locks that others see, and a struct flock."""
        kinds = {"R": fcntl.F_RDLCK, "W": fcntl.F_WRLCK, "U": fcntl.F_UNLCK}
        descriptor = self.descriptor(slot) if stat.S_ISREG(self.status(slot).st_mode) else None
        return descriptor, struct.pack(FLOCK, kinds[kind], os.SEEK_SET, start, length, 0)

    def lock(self, slot, kind, start, length):
        """A record lock of this process, without waiting."""
        descriptor, wanted = self.range_of(slot, kind, start, length)
        if descriptor is not None:
            fcntl.fcntl(descriptor, fcntl.F_SETLK, wanted)

    def is_locked(self, slot, kind, start, length):
        """Whether another process has a lock that excludes this one."""
        descriptor, wanted = self.range_of(slot, kind, start, length)
        if descriptor is None:
            return False
        return struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))[0] != fcntl.F_UNLCK

    def fsync(self, slot):
        os.fsync(self.descriptor(slot))

    def fdatasync(self, slot):
        os.fdatasync(self.descriptor(slot))

    def fstat(self, slot):
        return facts(self.status(slot))

    def status(self, slot):
        return os.fstat(self.descriptor(slot))

    def stat(self, name):
        return facts(os.stat(self.path(name)))

    def lstat(self, name):
        return facts(os.lstat(self.path(name)))

    def access(self, name, mode):
        return os.access(self.path(name), mode)

    def set_attribute(self, name, attribute, size, seed, flags):
        os.setxattr(self.path(name), attribute, pattern(seed, size), flags)

    def get_attribute(self, name, attribute):
        return os.getxattr(self.path(name), attribute)

    def list_attributes(self, name):
        return sorted(os.listxattr(self.path(name)))

    def drop_attribute(self, name, attribute):
        os.removexattr(self.path(name), attribute)

    def set_acl(self, name, default, user, group, permissions):
        """A POSIX ACL with an entry for a user and one for a group, and a mask; permissions: six, rwx of each entry."""
        tags = ((1, NOBODY), (2, user), (4, NOBODY), (8, group), (16, NOBODY), (32, NOBODY))
        value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, allowed, who)
                                                for (tag, who), allowed in zip(tags, permissions))
        os.setxattr(self.path(name), f"system.posix_acl_{'default' if default else 'access'}", value)

    def get_acl(self, name, default):
        return os.getxattr(self.path(name), f"system.posix_acl_{'default' if default else 'access'}")

    def drop_acl(self, name, default):
        os.removexattr(self.path(name), f"system.posix_acl_{'default' if default else 'access'}")

    def rename(self, name, new):
        try:
            os.rename(self.path(name), self.path(new))
        except OSError as error:  # POSIX allows either for a directory that is not empty
            raise OSError(errno.EEXIST if error.errno == errno.ENOTEMPTY else error.errno, "") from error

    def link(self, name, new):
        os.link(self.path(name), self.path(new), follow_symlinks=False)

    def unlink(self, name):
        os.unlink(self.path(name))

    def symlink(self, target, name):
        os.symlink(target, self.path(name))

    def readlink(self, name):
        return os.readlink(self.path(name))

    def mkdir(self, name, mode):
        os.mkdir(self.path(name), mode)

    def rmdir(self, name):
        os.rmdir(self.path(name))

    def chmod(self, name, mode):
        os.chmod(self.path(name), mode)

    def chown(self, name, uid, gid):
        os.chown(self.path(name), uid, gid, follow_symlinks=False)

    def utime(self, name, atime, mtime):
        os.utime(self.path(name), ns=(atime, mtime))
        status = os.stat(self.path(name))
        return status.st_mtime_ns

    def list(self, name):
        return sorted(os.listdir(self.path(name)))

    def touched(self, arguments):
        """The inodes that a call with these arguments used."""
        found = set()
        for word in arguments[:2]:
            looks = [(os.stat, self.path(word)), (os.lstat, self.path(word))] if isinstance(word, str) else []
            if isinstance(word, int) and word in self.open_files:
                looks = [(os.fstat, self.open_files[word])]
            for look, what in looks:
                try:
                    found.add(look(what).st_ino)
                except OSError:
                    pass
        return found

    def different(self, first, second):
        """Returns (name, inode on this side, first byte that differs) for each difference of two outcomes of `tree`."""
        if first[0] != "returned" or second[0] != "returned":
            return []
        wrong = []
        for name in sorted(set(first[1]) & set(second[1])):
            (facts_here, content), (facts_there, other) = first[1][name], second[1][name]
            if (facts_here, content) != (facts_there, other):
                wrong.append((name, os.lstat(self.path(name)).st_ino, self.first_byte(content, other)))
        return wrong[:5]

    @staticmethod
    def first_byte(one, other):
        if not isinstance(one, tuple) or not isinstance(other, tuple):
            return None
        # Digests of a page each.
        page = next((n for n, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))
        return page * PAGE

    def tree(self):
        """All entries, with the contents of all files."""
        found = {}
        for directory, names, files in os.walk(self.root):
            for name in names + files:
                path = os.path.join(directory, name)
                status = os.lstat(path)
                content = None
                if stat.S_ISREG(status.st_mode):
                    with open(path, "rb") as file:
                        data = file.read()
                    content = tuple(hashlib.sha256(data[at:at + PAGE]).digest()[:8] for at in range(0, len(data), PAGE))
                elif stat.S_ISLNK(status.st_mode):
                    content = os.readlink(path)
                found[os.path.relpath(path, self.root)] = (facts(status), content)
        return found


def outcome(side, call, arguments):
    try:
        return "returned", getattr(side, call)(*arguments)
    except OSError as error:
        return "failed", errno.errorcode.get(error.errno, error.errno)
    except AssertionError as error:
        return "asserted", str(error)


def shown(path):
    """The attributes of a path except the time of access, and the data of a file; an errno if lstat(2) fails."""
    try:
        status = os.lstat(path)
        found = {name: getattr(status, name) for name in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_ino", "st_size",
                                                          "st_mtime_ns", "st_ctime_ns")}
        if stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                found["data"] = hashlib.sha256(file.read()).hexdigest()[:16]
        elif stat.S_ISDIR(status.st_mode):
            found["names"] = sorted(os.listdir(path))
        elif stat.S_ISLNK(status.st_mode):
            found["target"] = os.readlink(path)
        return found
    except OSError as error:
        return {"errno": errno.errorcode.get(error.errno, error.errno)}


def unlike(roots, arguments):
    """Returns how two directories differ in the names among the arguments of a call and in their directories; None if
    they do not."""
    names = [word for word in arguments[:2] if isinstance(word, str)]
    for name in dict.fromkeys([*names, *(os.path.dirname(name) or "." for name in names)]):
        here, there = (shown(os.path.join(root, name)) for root in roots)
        if here != there:
            wrong = [key for key in {**here, **there} if here.get(key) != there.get(key)]
            return "; ".join(f"{name}: {key} {here.get(key)}, on the other mount {there.get(key)}" for key in wrong)
    return None


def brief(entry):
    """An entry of `tree` without the digests of its pages."""
    return entry if entry is None or not isinstance(entry[1], tuple) else (entry[0], hash(entry[1]))


def difference(call, first, second):
    """Returns the differences between the outcome on the mount and the plain one, shortened; None if there are none."""
    if first == second and first[0] != "asserted":
        return None
    if call == "tree" and first[0] == second[0] == "returned":
        names = sorted(set(first[1]) | set(second[1]))
        wrong = [name for name in names if first[1].get(name) != second[1].get(name)]
        return "; ".join(f"{name}: mount {brief(first[1].get(name))}, plain {brief(second[1].get(name))}" for name in wrong[:5])
    if isinstance(first[1], bytes) and isinstance(second[1], bytes):
        place = next((n for n, pair in enumerate(zip(first[1], second[1])) if pair[0] != pair[1]), None)
        return f"data of {len(first[1])} and {len(second[1])} bytes, different from byte {place} on"
    return f"mount {str(first)[:300]}, plain {str(second)[:300]}"
