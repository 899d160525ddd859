"""Edges of other areas: mount points, posix_fallocate, access modes that are none, directories that are gone."""

import os
import subprocess

from .calls import AT_SYMLINK_NOFOLLOW
from .subject import TYPES, become

EVERYBODY = ("root", "owner", "insider", "member", "other")


def mount_point(t):
    """A directory on which something is mounted is busy."""
    for path in ("at", "at/in", "d", "d/mounted"):
        os.mkdir(path)
    t.make("file", "f")
    subprocess.run(["mount", "-t", "tmpfs", "dafs-test", "at/in"], check=True)
    try:
        for words in (("rmdir", "at/in"), ("unlink", "at/in"), ("rename", "at/in", "d/x"), ("rename", "d", "at/in"),
                      ("rename2", "d", "at/in", 2), ("rmdir", "at"), ("rename", "at/in", "at/y"), ("rename", "f", "at/in/f"),
                      ("link", "f", "at/in/f"), ("rename2", "at/in", "d", 2)):
            t.do("root", *words, watch=("at", "d"))
        t.do("root", "rename", "at", "moved")
        t.do("root", "listdir", "moved/in")
    finally:
        subprocess.run(["umount", "moved/in" if os.path.isdir("moved") else "at/in"], check=True)
    t.do("root", "rmdir", "moved/in", watch=("moved",))


def allocation(mode):
    """posix_fallocate: sizes, times, set-id bits, by every user who may write."""

    def case(t):
        os.chmod(".", 0o777)
        t.make("file", "x", "owner", 0o666)
        for who in EVERYBODY:
            for offset, length in ((0, 1), (0, 5000), (10_000, 1), (100, 100), (0, 0), (-1, 10), (0, -1), (1 << 62, 1 << 62)):
                os.chmod("x", mode | 0o666)
                descriptor = t.hold(os.open("x", os.O_RDWR))
                t.do(who, os.posix_fallocate, descriptor, offset, length, watch=("x",))
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_PATH):
                descriptor = t.hold(os.open("x", flags))
                t.do(who, os.posix_fallocate, descriptor, 0, 20_000, watch=("x",))
            os.truncate("x", 0)

    return case


def allocation_types(t):
    """Types without space to allocate."""
    for kind in ("dir", "fifo", "socket", "char"):
        t.make(kind, kind)
        try:
            descriptor = t.hold(os.open(kind, os.O_PATH if kind == "socket" else
                                        os.O_RDONLY if kind == "dir" else os.O_RDWR | os.O_NONBLOCK))
        except OSError as error:
            t.note(kind, error.errno)
            continue
        t.do("root", os.posix_fallocate, descriptor, 0, 100)


def no_access_mode(t):
    """The access mode 3, for ioctl(2) alone on Linux: it needs both rights."""
    os.chmod(".", 0o777)
    for mode in (0o666, 0o444, 0o222, 0o000):
        for kind in TYPES:
            if kind in ("char", "block", "socket"):
                continue
            path = f"{kind}{mode:o}"
            t.make(kind, path, "owner", mode)
            for who in ("root", "owner", "other"):
                t.do(who, "open", path, 3 | os.O_NONBLOCK, watch=(path,))


def failures_leave_times(t):
    """A call that is refused changes no time of the directory or the file."""
    t.make("dir", "d", "owner", 0o755)
    t.make("file", "d/f", "owner", 0o644)
    t.make("dir", "d/full", "owner", 0o755)
    t.make("file", "d/full/in", "owner")
    os.symlink("f", "d/l")
    for who in ("other", "member", "owner"):
        for words in (("mkdir", "d/f", 0o755), ("mkdir", "d/new", 0o755), ("mkfifo", "d/f", 0o644), ("symlink", "d/f", "x"),
                      ("link", "d/f", "d/l"), ("link", "d/full", "d/new"), ("rename", "d/f", "d/full"),
                      ("rename", "d/full", "d/f"), ("rmdir", "d/full"), ("rmdir", "d/f"), ("unlink", "d/full"),
                      ("chown", "d/f", 0, 0), ("truncate", "d/f", -1), ("open", "d/f", os.O_CREAT | os.O_EXCL | os.O_RDWR),
                      ("open", "d/full", os.O_RDWR), ("rename2", "d/f", "d/l", 1), ("utimens", "d/f", (0, -1), (0, 0))):
            if who != "owner" or words[0] not in ("mkdir",) or words[1] == "d/f":
                t.do(who, *words, watch=("d", "d/f", "d/full"))


def sub_second(t):
    """Times keep their nanoseconds through every way of setting and reading them."""
    for kind in TYPES:
        t.make(kind, kind)
        for nanoseconds in (1, 999, 1000, 123_456_789, 999_999_999):
            for seconds in (0, 1, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 33) + 5, -(1 << 31)):
                t.do("root", "utimens", kind, (seconds, nanoseconds), (seconds + 1, nanoseconds), AT_SYMLINK_NOFOLLOW)
                status = os.lstat(kind)
                t.note(f"{kind} {seconds}", (status.st_mtime_ns,) if kind == "link" else
                       (status.st_atime_ns, status.st_mtime_ns))
        changed = os.lstat(kind).st_ctime_ns
        t.rest()
        os.lchown(kind, 7, 7)
        t.note("later", os.lstat(kind).st_ctime_ns > changed)


def gone(t):
    """In a directory that was removed while in use, no call makes or finds a name."""
    os.mkdir("gone")
    os.chmod("gone", 0o777)
    here = os.getcwd()
    t.make("file", "f")
    os.chdir("gone")
    os.rmdir(os.path.join(here, "gone"))
    for who in ("root", "owner"):
        for words in (("mkdir", "x", 0o755), ("mkfifo", "x", 0o644), ("symlink", "x", "y"), ("open", "x", os.O_CREAT | os.O_RDWR),
                      ("open", "x", os.O_RDONLY), ("unlink", "x"), ("rmdir", "x"), ("rmdir", "."), ("stat", "x"), ("stat", "."), ("listdir", "."),
                      ("access", ".", os.W_OK)):
            t.do(who, *words)  # what else it can do: see DIFFERENCES
        for call in ("link", "rename"):
            t.note(f"{who}: {call}", t.attempt(call, os.path.join(here, "f"), "x"))
    become("root")
    os.chdir(here)
    t.do("root", "listdir", ".")


def cases():
    yield "edges/mount-point", mount_point
    for mode in (0o644, 0o4755, 0o2755, 0o6777):
        yield f"fallocate/posix/{mode:04o}", allocation(mode)
    yield "fallocate/types", allocation_types
    yield "edges/access-mode", no_access_mode
    yield "edges/refused", failures_leave_times
    yield "edges/sub-second", sub_second
    yield "edges/gone", gone
