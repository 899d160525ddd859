"""The system calls that are compared, by name. Each takes what its manual page says and raises OSError."""

import ctypes
import os
import stat

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_SYMLINK_FOLLOW = 0x400
AT_EMPTY_PATH = 0x1000
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
BAD_POINTER = ctypes.c_void_p(1)
SYS_RENAMEAT2, SYS_STATX, SYS_GETDENTS64 = {"x86_64": (316, 332, 217), "aarch64": (276, 291, 61)}[os.uname().machine]


def _failed(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _path(path):
    return path if isinstance(path, ctypes.c_void_p) else ctypes.c_char_p(os.fsencode(path))


def rename2(old, new, flags):
    _failed(LIBC.syscall(SYS_RENAMEAT2, AT_FDCWD, _path(old), AT_FDCWD, _path(new), flags))


def utimens(path, atime, mtime, flags=0):
    """Times are (seconds, nanoseconds); nanoseconds may be NOW or OMIT."""
    times = (ctypes.c_long * 4)(*atime, *mtime)
    _failed(LIBC.utimensat(AT_FDCWD, _path(path), times, flags))


def futimens(path, atime, mtime):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _failed(LIBC.futimens(descriptor, (ctypes.c_long * 4)(*atime, *mtime)))
    finally:
        os.close(descriptor)


def opened(path, flags, mode=0o666):
    """open(2) and close(2)."""
    os.close(os.open(path, flags, mode))


def by_descriptor(call, flags=os.O_RDONLY | os.O_NONBLOCK):
    """`call` on a descriptor of the path given in place of the path."""

    def run(path, *arguments):
        descriptor = os.open(path, flags)
        try:
            return call(descriptor, *arguments)
        finally:
            os.close(descriptor)

    return run


def numbers(path):
    """{name: inode number} as getdents64(2) lists a directory, with "." and ".."."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    buffer = ctypes.create_string_buffer(1 << 16)
    found = {}
    try:
        while size := _failed(LIBC.syscall(SYS_GETDENTS64, descriptor, buffer, len(buffer))):
            at = 0
            while at < size:
                length = int.from_bytes(buffer[at + 16:at + 18], "little")
                name = bytes(buffer[at + 19:at + length]).split(b"\0")[0]
                found[os.fsdecode(name)] = int.from_bytes(buffer[at:at + 8], "little")
                at += length
    finally:
        os.close(descriptor)
    return found


def fill(path, data, flags=os.O_WRONLY):
    descriptor = os.open(path, flags)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)


def drain(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def faulty(name):
    """The call `name` of libc with a pointer to nowhere."""

    def run(*arguments):
        _failed(getattr(LIBC, name)(*(BAD_POINTER if word is None else _path(word) if isinstance(word, str) else word
                                      for word in arguments)))

    return run


def birth_moves(path):
    """Whether the file has a time of birth, and it is not after its last change."""
    buffer = ctypes.create_string_buffer(256)
    _failed(LIBC.syscall(SYS_STATX, AT_FDCWD, _path(path), AT_SYMLINK_NOFOLLOW, 0xFFF, buffer))
    has = bool(int.from_bytes(buffer[0:4], "little") & 0x800)
    birth, change = (int.from_bytes(buffer[at:at + 8], "little", signed=True) for at in (80, 96))
    return has, birth <= change, birth > 1_600_000_000


CALLS = {
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": os.mknod,
    "open": opened,
    "symlink": lambda path, target: os.symlink(target, path),
    "link": lambda source, path: os.link(source, path, follow_symlinks=False),
    "linkfollow": lambda source, path: os.link(source, path, follow_symlinks=True),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "rename": os.rename,
    "rename2": rename2,
    "chmod": os.chmod,
    "fchmod": by_descriptor(os.fchmod),
    "chown": os.chown,
    "lchown": os.lchown,
    "fchown": by_descriptor(os.fchown),
    "truncate": os.truncate,
    "ftruncate": by_descriptor(os.ftruncate, os.O_RDWR),
    "utimens": utimens,
    "futimens": futimens,
    "stat": lambda path: stat.filemode(os.stat(path).st_mode),
    "lstat": lambda path: stat.filemode(os.lstat(path).st_mode),
    "statvfs": lambda path: os.statvfs(path).f_namemax,
    "readlink": os.readlink,
    "listdir": lambda path: sorted(os.listdir(path)),
    "access": lambda path, mode: os.access(path, mode, effective_ids=True),
    "chdir": os.chdir,
    "write": fill,
    "read": drain,
    "birth": birth_moves,
}
