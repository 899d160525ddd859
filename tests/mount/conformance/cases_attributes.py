"""Attributes: chmod, chown, truncate, utimensat, and what writing does to set-id bits."""

import os

from .calls import AT_SYMLINK_NOFOLLOW, NOW, OMIT
from .subject import OLD, TYPES, become

EVERYBODY = ("root", "owner", "insider", "member", "other")
MODES = (0o000, 0o444, 0o644, 0o711, 0o777, 0o1755, 0o2755, 0o2745, 0o4755, 0o6777, 0o7777)
SET_IDS = (0o6777, 0o6767, 0o4755, 0o2755, 0o2745, 0o6000, 0o0755)
OWNERS = ((-1, -1), (0, 0), (5001, -1), (-1, 5001), (-1, 5003), (5001, 5003), (5004, -1), (-1, 5004), (5004, 5004),
          (65534, 65534), (0x7FFFFFFF, 0xFFFFFFFE))
SIZES = (0, 1, 4095, 4096, 100_000, -1, 1 << 62, (1 << 63) - 1)
TIMES = ((1, 999_999_999), (OLD, 123_456_789), (0, 0), (-1, 500), (4_000_000_000, 1), (0, NOW), (0, OMIT))


def chmod(call, kind):
    def case(t):
        os.chmod(".", 0o777)
        for group in (5001, 5003):
            path = f"{kind}{group}"
            t.make(kind, path, "owner")
            os.lchown(path, 5001, group)
            target = f"{path}.target" if kind in ("link", "dirlink") else path
            if os.path.exists(target):
                os.chown(target, 5001, group)
            for who in EVERYBODY:
                for mode in MODES:
                    t.do(who, call, path, mode, watch=(target,))

    return case


def chown(call, kind):
    def case(t):
        os.chmod(".", 0o777)
        t.make(kind, "x", "owner")
        target = "x.target" if kind in ("link", "dirlink") else "x"
        for who in EVERYBODY:
            for uid, gid in OWNERS:
                os.lchown("x", 5001, 5001)
                if os.path.exists(target) and target != "x":
                    os.chown(target, 5001, 5001)
                t.do(who, call, "x", uid, gid, watch=("x", target))

    return case


def chown_bits(call, kind):
    """The set-id bits that remain after chown."""

    def case(t):
        t.make(kind, "x", "owner")
        for who in ("root", "owner", "insider", "other"):
            for mode in SET_IDS:
                for uid, gid in ((5001, 5001), (-1, -1), (-1, 5003), (5001, -1), (5004, 5004), (0, 0)):
                    os.lchown("x", 5001, 5001)
                    os.chmod("x", mode)
                    t.do(who, call, "x", uid, gid, watch=("x",))

    return case


def write_bits(mode):
    """The set-id bits that remain after a write or truncation, for each user."""

    def case(t):
        t.make("file", "x", "owner")
        for group in (5001, 5003):
            os.chown("x", 5001, group)
            for who in EVERYBODY + ("nobody",):
                for words in (("write", "x", b"some"), ("write", "x", b""), ("truncate", "x", 2), ("ftruncate", "x", 3),
                              ("truncate", "x", 3), ("open", "x", os.O_WRONLY | os.O_TRUNC),
                              ("open", "x", os.O_WRONLY | os.O_TRUNC | os.O_CREAT), ("chmod", "x", mode),
                              ("write", "x", b"more", os.O_WRONLY | os.O_APPEND)):
                    os.chmod("x", mode)
                    t.do(who, *words, watch=("x",))

    return case


def truncate(call, kind):
    def case(t):
        os.chmod(".", 0o777)
        t.make(kind, "x", "owner")
        target = "x.target" if kind in ("link", "dirlink") else "x"
        for who in ("root", "owner", "other"):
            for size in SIZES:
                t.do(who, call, "x", size, watch=(target,))
            t.do(who, call, "x", 0, watch=(target,))
            t.do(who, call, "x", 0, watch=(target,))

    return case


def truncate_rights(mode):
    def case(t):
        t.make("file", "x", "owner", mode)
        for who in EVERYBODY:
            for call in ("truncate", "ftruncate"):
                t.do(who, call, "x", 10, watch=("x",))
                t.do(who, call, "x", 10, watch=("x",))
        for who in EVERYBODY:
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
                t.do(who, "open", "x", flags, watch=("x",))
                t.do(who, "open", "x", flags | os.O_TRUNC, watch=("x",))
                t.do(who, "open", "x", flags | os.O_CREAT, watch=("x",))
            t.do(who, "read", "x")
            for bits in range(8):
                t.do(who, "access", "x", bits)

    return case


def held_bits(t):
    """Set-id bits go when a user writes who may not keep them, whichever user opened the file."""
    os.chmod(".", 0o777)
    t.make("file", "x", "owner", 0o666)
    for opener in ("root", "owner", "other"):
        become(opener)
        descriptor = t.hold(os.open("x", os.O_RDWR))
        become("root")
        for who in EVERYBODY:
            if who == "root" != opener:
                continue  # see DIFFERENCES
            for mode in (0o6777, 0o2755, 0o4755) + ((0o2745,) if opener == "other" else ()):
                for call, words in ((os.write, (b"ab",)), (os.ftruncate, (5,)), (os.pwrite, (b"", 0)), (os.posix_fallocate, (0, 9))):
                    os.chmod("x", mode)
                    t.do(who, call, descriptor, *words, watch=("x",))
                os.chmod("x", mode)
                t.do(who, "chown", "x", -1, -1, watch=("x",))


def held_rights(t):
    """A descriptor keeps the rights it was opened with."""
    t.make("file", "x", "owner", 0o600)
    descriptor = t.hold(os.open("x", os.O_RDWR))
    readable = t.hold(os.open("x", os.O_RDONLY))
    os.write(descriptor, b"0123456789")
    os.chmod("x", 0o000)
    os.chown("x", 0, 0)
    for who in ("other", "owner"):
        t.do(who, os.ftruncate, descriptor, 5, watch=("x",))
        t.do(who, os.ftruncate, descriptor, 5, watch=("x",))
        t.do(who, os.ftruncate, readable, 5, watch=("x",))
        t.do(who, os.write, descriptor, b"ab", watch=("x",))
        t.do(who, os.pread, descriptor, 100, 0)
        t.do(who, os.write, readable, b"ab")
        t.do(who, os.fchmod, descriptor, 0o644)
        t.do(who, os.fchown, descriptor, 5001, 5001)
        t.note(who, oct(os.fstat(readable).st_mode))


def exact(path, follow):
    status = os.stat(path) if follow else os.lstat(path)
    return status.st_atime_ns, status.st_mtime_ns


def utimens(call, kind):
    """Every pair of times, exactly."""

    def case(t):
        t.make(kind, "x", "owner")
        start = os.stat(".").st_mtime_ns

        # Following a link moves its own time of access; see DIFFERENCES.
        follow = {"utimens": (AT_SYMLINK_NOFOLLOW,) if os.path.islink("x") else (0, AT_SYMLINK_NOFOLLOW)}.get(call, (None,))

        def shown(value):
            return "now" if start <= value < start + 600 * 10**9 else value

        for atime in TIMES:
            for mtime in TIMES:
                os.utime("x", ns=(OLD * 10**9, OLD * 10**9), follow_symlinks=False)
                for flags in follow:
                    words = (call, "x", atime, mtime) + (() if flags is None else (flags,))
                    before = os.lstat("x").st_ctime_ns
                    t.rest()
                    t.do("root", *words)
                    t.note("ctime moved", before != os.lstat("x").st_ctime_ns)
                    t.note("times", [shown(value) for value in exact("x", False)])
        for wrong in ((0, 1_000_000_000), (0, -1), (0, (1 << 30) + 1)):
            t.do("root", call, "x", wrong, (0, 0))
            t.do("root", call, "x", (0, 0), wrong)

    return case


def utimens_rights(mode):
    """Any writer may set both times to now; other times are the owner's to set."""

    def case(t):
        for kind in ("file", "dir", "fifo"):
            t.make(kind, kind, "owner", mode)
            for who in EVERYBODY:
                for atime, mtime in (((0, NOW), (0, NOW)), ((0, OMIT), (0, OMIT)), ((0, NOW), (0, OMIT)),
                                     ((0, OMIT), (0, NOW)), ((5, 5), (5, 5)), ((0, NOW), (5, 5)), ((5, 5), (0, OMIT))):
                    t.do(who, "utimens", kind, atime, mtime, watch=(kind,))

    return case


# Linux 6.6 is the first kernel that requests the time of birth from FUSE.
HAS_STATX = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 6)


def birth(kind):
    def case(t):
        t.make(kind, "x")
        t.do("root", "birth", "x")
        t.do("other", "birth", "x")
        t.do("root", "birth", ".")
        t.do("root", "birth", "missing")

    return case


def cases():
    for kind in TYPES:
        for call in ("chmod", "fchmod"):
            if call == "chmod" or kind in ("file", "dir"):
                yield f"chmod/{call}/{kind}", chmod(call, kind)
        for call in ("chown", "lchown", "fchown"):
            if call != "fchown" or kind in ("file", "dir"):
                yield f"chown/{call}/{kind}", chown(call, kind)
        for call in ("truncate", "ftruncate"):
            if call == "truncate" or kind == "file":
                yield f"truncate/{call}/{kind}", truncate(call, kind)
        yield f"utimens/times/{kind}", utimens("utimens", kind)
        if HAS_STATX:
            yield f"birth/{kind}", birth(kind)
    for kind in ("file", "dir", "fifo"):
        for call in ("chown", "lchown", "fchown"):
            if call != "fchown" or kind != "fifo":
                yield f"chown/bits/{call}/{kind}", chown_bits(call, kind)
    yield "utimens/futimens", utimens("futimens", "file")
    for mode in SET_IDS + (0o6776, 0o2777, 0o2767):
        yield f"write/bits/{mode:04o}", write_bits(mode)
    for mode in (0o000, 0o400, 0o200, 0o600, 0o040, 0o020, 0o004, 0o002, 0o006, 0o711, 0o777):
        yield f"truncate/rights/{mode:04o}", truncate_rights(mode)
        yield f"utimens/rights/{mode:04o}", utimens_rights(mode)
    yield "truncate/held", held_rights
    yield "write/held", held_bits
