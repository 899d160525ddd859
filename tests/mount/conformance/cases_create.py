"""Making things: mkdir, mkfifo, mknod, open with O_CREAT, symlink, link. Modes, owners, groups, targets that exist."""

import os
import stat

from .subject import TYPES

CREATE = os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK
# How a thing is made at a path, with a mode where the call takes one.
MAKERS = {
    "mkdir": lambda path, mode: ("mkdir", path, mode),
    "mkfifo": lambda path, mode: ("mkfifo", path, mode),
    "mkreg": lambda path, mode: ("mknod", path, stat.S_IFREG | mode),
    "mksock": lambda path, mode: ("mknod", path, stat.S_IFSOCK | mode),
    "mkchar": lambda path, mode: ("mknod", path, stat.S_IFCHR | mode, os.makedev(1, 7)),
    "mkblock": lambda path, mode: ("mknod", path, stat.S_IFBLK | mode, os.makedev(7, 1)),
    "creat": lambda path, mode: ("open", path, CREATE, mode),
    "creatx": lambda path, mode: ("open", path, CREATE | os.O_EXCL, mode),
    "symlink": lambda path, mode: ("symlink", path, "target"),
    "link": lambda path, mode: ("link", "source", path),
}
MODES = (0o000, 0o111, 0o444, 0o644, 0o751, 0o777, 0o1777, 0o2755, 0o2745, 0o4711, 0o6777, 0o7777)
UMASKS = (0o000, 0o022, 0o077, 0o151, 0o777)
DIR_MODES = (0o000, 0o100, 0o200, 0o300, 0o500, 0o600, 0o700, 0o070, 0o030, 0o060, 0o007, 0o003, 0o005, 0o770, 0o755,
             0o1777, 0o1730)
DEVICES = ((0, 0), (1, 3), (255, 255), (256, 256), (1, 256), (4095, 1048575), (511, 65536), (12, 0xABCDE))


def modes(maker, mode):
    """The mode as given less the umask, the owner, the directory's times."""

    def case(t):
        os.mkdir("d")
        os.chmod("d", 0o777)
        t.make("file", "source")
        for umask in UMASKS:
            os.umask(umask)
            for who in ("root", "owner"):
                path = f"d/{who}{umask:o}"
                t.do(who, *MAKERS[maker](path, mode), watch=("d",))
                t.show(path)
        os.umask(0)

    return case


def setgid(maker, group):
    """In a directory with the set-group-ID bit the directory's group is inherited."""

    def case(t):
        os.mkdir("d")
        os.chown("d", 0, group)
        os.chmod("d", 0o2777)
        t.make("file", "source")
        for mode in (0o644, 0o755, 0o2755, 0o2775, 0o2745, 0o6777):
            for who in ("root", "owner", "insider", "member"):
                path = f"d/{who}{mode:o}"
                t.do(who, *MAKERS[maker](path, mode), watch=("d",))
                t.show(path)

    return case


def existing(maker, kind):
    """A name that is taken."""

    def case(t):
        os.chmod(".", 0o777)
        t.make("file", "source")
        t.make(kind, "taken")
        for who in ("root", "owner", "other"):
            t.do(who, *MAKERS[maker]("taken", 0o644), watch=("taken", "."))
            t.do(who, *MAKERS[maker]("taken/", 0o644), watch=("taken",))

    return case


def rights(maker, mode):
    """Users that may make something in a directory of this mode."""

    def case(t):
        t.make("dir", "d", "owner", mode)
        t.make("file", "source")
        for who in ("root", "owner", "member", "other", "insider"):
            t.do(who, *MAKERS[maker](f"d/{who}", 0o644), watch=("d",))
            t.show(f"d/{who}")

    return case


def devices(t):
    """Device numbers, and types that mknod does not make."""
    for kind, bits in (("c", stat.S_IFCHR), ("b", stat.S_IFBLK)):
        for major, minor in DEVICES:
            path = f"{kind}{major}-{minor}"
            t.do("root", "mknod", path, bits | 0o600, os.makedev(major, minor))
            t.show(path)
    os.chmod(".", 0o777)
    for bits in (stat.S_IFDIR, stat.S_IFLNK, 0o170000, 0o030000, stat.S_IFREG, 0):
        for who in ("root", "owner"):
            t.do(who, "mknod", f"type{bits:o}{who}", bits | 0o644)
            t.show(f"type{bits:o}{who}")
    for bits in (stat.S_IFCHR, stat.S_IFBLK):
        t.do("owner", "mknod", f"mine{bits:o}", bits | 0o644, os.makedev(0, 0))
        t.do("owner", "mknod", f"null{bits:o}", bits | 0o644, os.makedev(1, 3))


def cases():
    for maker in MAKERS:
        for mode in MODES if maker not in ("symlink", "link") else (0o644,):
            yield f"create/mode/{maker}/{mode:04o}", modes(maker, mode)
        for group in (0, 5001, 5003):
            yield f"create/setgid/{maker}/{group}", setgid(maker, group)
        for kind in TYPES + ("full",):
            yield f"create/existing/{maker}/{kind}", existing(maker, kind)
        for mode in DIR_MODES:
            yield f"create/rights/{maker}/{mode:04o}", rights(maker, mode)
    yield "create/devices", devices
