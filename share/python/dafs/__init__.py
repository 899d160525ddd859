"""Files of a DAFS server without a mount: libdafs for Python.

    with dafs.Session("files1", "/data") as session:
        with session.open("dir/file", write=True, create=True) as file:
            file.write(b"hello", 0)
        for name, attributes in session.list("dir"):
            print(name, attributes.size)

A Session belongs to the thread that opened it, with its files and groups. Calls block, and other threads run meanwhile.
Group has coroutines for asyncio. Paths are relative to the export. Errors are of the class Error, an OSError.
"""

import collections
import os

from ._library import BrokenLockError, Error, check, encoded, ffi, lib, structure

__all__ = ["Attributes", "BrokenLockError", "Error", "File", "Group", "Lock", "Memory", "Session", "version"]

Attributes = collections.namedtuple("Attributes", "type mode size mtime links file_id change")
Lock = collections.namedtuple("Lock", "offset length write")

_TYPES = {1: "file", 2: "directory", 3: "block", 4: "character", 5: "symlink", 6: "socket", 7: "fifo"}
_PATTERNS = {"normal": 0, "random": 1, "sequential": 2, "will_need": 3, "dont_need": 4}


def version():
    """The version of libdafs."""
    return ffi.string(lib.dafs_version()).decode()


def _attributes(found):
    mtime = found.mtime_seconds + found.mtime_nanoseconds / 1e9
    return Attributes(_TYPES.get(found.type, "unknown"), found.mode, found.file_size, mtime, found.links, found.file_id,
                      found.change)


def _wanted(mode, size, mtime):
    wanted = structure("dafs_attributes")
    if mode is not None:
        wanted.valid |= lib.DAFS_ATTR_MODE
        wanted.mode = mode
    if size is not None:
        wanted.valid |= lib.DAFS_ATTR_SIZE
        wanted.file_size = size
    if mtime is not None:
        wanted.valid |= lib.DAFS_ATTR_MTIME
        seconds, nanoseconds = divmod(round(mtime * 1_000_000_000), 1_000_000_000)
        wanted.mtime_seconds, wanted.mtime_nanoseconds = seconds, nanoseconds
    return wanted


class _Closing:
    """An object with a handle that `with` closes."""

    _handle = ffi.NULL

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Session(_Closing):
    """A session with an export, on behalf of one user (None: that of the process, else (uid, gid, groups)).

    `timeout` in seconds, None: calls wait for the server without limit. The other arguments are the fields of
    struct dafs_options in dafs.h.
    """

    def __init__(self, server, export, *, transport=None, client_id=None, fence_id=None, user=None, timeout=None,
                 most_out=0, tls_name=None, tls_ca=None, tls_cert=None, tls_key=None):
        texts = {"server": server, "export_path": export, "transport": transport, "client_id": client_id,
                 "fence_id": fence_id, "tls_name": tls_name, "tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
        fields = {key: encoded(text) for key, text in texts.items()}  # kept until the call has ended
        options = structure("dafs_options", **fields)
        ids = ffi.NULL
        if user is not None:
            uid, gid, groups = user
            ids = ffi.new("uint32_t[]", [uid, gid, *groups])
            options.user, options.groups = ids, len(groups)
        if timeout is not None:
            options.timeout_ms = max(1, round(timeout * 1000))
        options.most_out = most_out
        out = ffi.new("dafs_session **")
        check(lib.dafs_session_open(options, out))
        self._handle = out[0]

    def close(self):
        """Ends the session with its files and groups."""
        if self._handle != ffi.NULL:
            check(lib.dafs_session_close(self._handle))
            self._handle = ffi.NULL

    def open(self, path, *, write=False, create=False, exclusive=False, truncate=False, unlinked=False, mode=0o644,
             deny_read=False, deny_write=False, deny_delete=False, share_key=None, pattern="normal"):
        """Opens a file, by default for reading. dafs.h explains the options."""
        chosen = [write, create, exclusive, truncate, unlinked, deny_read, deny_write, deny_delete, share_key is not None]
        flags = sum(1 << bit for bit, is_set in enumerate(chosen) if is_set)
        options = structure("dafs_open_options", flags=flags, mode=mode, share_key=share_key or 0,
                            pattern=_PATTERNS[pattern])
        out = ffi.new("dafs_file **")
        check(lib.dafs_open(self._handle, encoded(path), options, out))
        return File(out[0])

    def list(self, path=""):
        """Returns the entries of a directory as pairs of name and Attributes."""
        out = ffi.new("dafs_list **")
        check(lib.dafs_list_open(self._handle, encoded(path), out))
        return [(name, _attributes(found)) for name, found in self._take(out[0])]

    @staticmethod
    def _take(listed):
        name = ffi.new("char **")
        try:
            while True:
                found = structure("dafs_attributes")
                if check(lib.dafs_list_next(listed, name, found)) == 0:
                    return
                yield os.fsdecode(ffi.string(name[0])), found
        finally:
            lib.dafs_list_close(listed)

    def stat(self, path):
        """Returns the Attributes."""
        found = structure("dafs_attributes")
        check(lib.dafs_stat(self._handle, encoded(path), found))
        return _attributes(found)

    def set_attributes(self, path, *, mode=None, size=None, mtime=None):
        """Sets those that are given."""
        check(lib.dafs_set_attributes(self._handle, encoded(path), _wanted(mode, size, mtime)))

    def verify(self, path, *, mode=None, size=None, mtime=None):
        """Whether the server has exactly the attributes that are given."""
        return check(lib.dafs_verify(self._handle, encoded(path), _wanted(mode, size, mtime))) == 1

    def nverify(self, path, *, mode=None, size=None, mtime=None):
        """The same by NVERIFY."""
        return check(lib.dafs_nverify(self._handle, encoded(path), _wanted(mode, size, mtime))) == 1

    def mkdir(self, path, mode=0o777):
        """Makes a directory."""
        check(lib.dafs_mkdir(self._handle, encoded(path), mode))

    def remove(self, path):
        """Removes a file or an empty directory."""
        check(lib.dafs_remove(self._handle, encoded(path)))

    def rename(self, old, new):
        """Renames a file or directory; replaces `new`."""
        check(lib.dafs_rename(self._handle, encoded(old), encoded(new)))

    def link(self, old, new):
        """Gives a file another name."""
        check(lib.dafs_link(self._handle, encoded(old), encoded(new)))

    def symlink(self, target, path):
        """Makes a symbolic link."""
        check(lib.dafs_symlink(self._handle, encoded(target), encoded(path)))

    def readlink(self, path):
        """Returns the target of a symbolic link."""
        into = ffi.new("char[]", 65536)
        check(lib.dafs_readlink(self._handle, encoded(path), into, len(into)))
        return os.fsdecode(ffi.string(into))

    def fence(self, path=""):
        """Returns the fence ids that may access the path; none: every client may."""
        out = ffi.new("dafs_list **")
        check(lib.dafs_fence_get(self._handle, encoded(path), out))
        return [name for name, _ in self._take(out[0])]

    def set_fence(self, path, ids, *, access="allow", update="append", filesystem=False):
        """Changes the fencing list. `access`: allow, deny; `update`: overwrite, append, remove."""
        names = [encoded(name) for name in ids]
        check(lib.dafs_fence_set(self._handle, encoded(path), 2 if filesystem else 1, {"allow": 1, "deny": 2}[access],
                                 {"overwrite": 1, "append": 2, "remove": 3}[update], ffi.new("char *[]", names), len(names)))

    def register(self, buffer, access="both"):
        """Registers a buffer for RDMA. `access`: reads, writes, both. The buffer must be writable."""
        return Memory(self._handle, buffer, {"reads": 1, "writes": 2, "both": 3}[access])

    def group(self):
        """Returns a new completion group, for asyncio."""
        out = ffi.new("dafs_group **")
        check(lib.dafs_group_open(self._handle, out))
        return Group(self._handle, out[0])


class Memory(_Closing):
    """A registered buffer: an argument of readinto and write of a Group."""

    def __init__(self, session, buffer, access):
        self._view = ffi.from_buffer(buffer, require_writable=True)
        out = ffi.new("uint32_t *")
        check(lib.dafs_register(session, self._view, len(self._view), access, out))
        self._session, self._number = session, out[0]

    def close(self):
        """Ends the registration, and the hold on the buffer. BlockingIOError and the like: an I/O uses it."""
        if self._view is not None:
            check(lib.dafs_deregister(self._session, self._number))
            ffi.release(self._view)
            self._view = None


class File(_Closing):
    """An open file. Offsets are explicit; there is no file pointer."""

    def __init__(self, handle):
        self._handle = handle

    def close(self):
        """Closes the file and releases its locks."""
        if self._handle != ffi.NULL:
            check(lib.dafs_close(self._handle))
            self._handle = ffi.NULL

    def readinto(self, buffer, offset):
        """Reads into a writable buffer. Returns the number of bytes; fewer only at the end of the file."""
        with ffi.from_buffer(buffer, require_writable=True) as into:
            return check(lib.dafs_read(self._handle, into, len(into), offset))

    def read(self, size, offset):
        """Returns up to `size` bytes; fewer only at the end of the file."""
        into = bytearray(size)
        count = self.readinto(into, offset)
        return bytes(memoryview(into)[:count])

    def write(self, data, offset):
        """Writes all of `data`."""
        with ffi.from_buffer(data) as source:
            return check(lib.dafs_write(self._handle, source, len(source), offset))

    def append(self, data):
        """Writes all of `data` at the end of the file, and returns its offset."""
        with ffi.from_buffer(data) as source:
            return check(lib.dafs_append(self._handle, source, len(source)))

    def truncate(self, size):
        """Sets the size."""
        check(lib.dafs_truncate(self._handle, size))

    def commit(self):
        """Makes all writes so far stable, as os.fsync."""
        check(lib.dafs_commit(self._handle))

    def hint(self, pattern, offset=0, size=0):
        """Says how `size` bytes will be used; 0: to the end of the file."""
        check(lib.dafs_hint(self._handle, offset, size, _PATTERNS[pattern]))

    def stat(self):
        """Returns the Attributes."""
        found = structure("dafs_attributes")
        check(lib.dafs_fstat(self._handle, found))
        return _attributes(found)

    @staticmethod
    def _lock(offset, length, write, wait=0, **kinds):
        kinds = [write, kinds.get("persist"), kinds.get("auto_recovery"), kinds.get("repair")]
        flags = sum(1 << bit for bit, is_set in enumerate(kinds) if is_set)
        wait_ms = -1 if wait is None else round(wait * 1000)
        return structure("dafs_range_lock", offset=offset, length=length, flags=flags, wait_ms=wait_ms)

    def lock(self, offset=0, length=0, *, write=True, persist=False, auto_recovery=False, repair=False, wait=None):
        """Locks the range; length 0: to the end of the file. Waits `wait` seconds, None: without limit.

        BlockingIOError: another owner holds it. BrokenLockError: the client that held it has failed.
        """
        check(lib.dafs_lock(self._handle, self._lock(offset, length, write, wait, persist=persist,
                                                     auto_recovery=auto_recovery, repair=repair)))

    def test_lock(self, offset=0, length=0, *, write=True):
        """Returns a conflicting Lock of another owner, or None."""
        lock = self._lock(offset, length, write)
        if check(lib.dafs_lock_test(self._handle, lock)) == 0:
            return None
        return Lock(lock.offset, lock.length, bool(lock.flags & lib.DAFS_LOCK_WRITE))

    def unlock(self, offset=0, length=0):
        """Releases the range."""
        check(lib.dafs_unlock(self._handle, offset, length))

    def abort(self, offset=0, length=0):
        """Undoes what was written under an auto-recovery lock of the range."""
        check(lib.dafs_abort(self._handle, self._lock(offset, length, True)))


from ._group import Group  # noqa: E402  It needs Memory.
