"""Paths: every call on paths that are too long, loop, lead through a file or a directory without search rights, or are
at invalid addresses.
"""

import os
import stat

from .calls import faulty
from .subject import TYPES

# Calls with one path; the others' second path is given.
ONE = {
    "mkdir": lambda path: ("mkdir", path, 0o755),
    "mkfifo": lambda path: ("mkfifo", path, 0o644),
    "mknod": lambda path: ("mknod", path, stat.S_IFCHR | 0o644, os.makedev(1, 3)),
    "open": lambda path: ("open", path, os.O_RDONLY | os.O_NONBLOCK),
    "creat": lambda path: ("open", path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o644),
    "opendir": lambda path: ("open", path, os.O_RDONLY | os.O_DIRECTORY),
    "opennofollow": lambda path: ("open", path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK),
    "openpath": lambda path: ("open", path, os.O_PATH),
    "symlink": lambda path: ("symlink", path, "target"),
    "linkto": lambda path: ("link", "source", path),
    "linkfrom": lambda path: ("link", path, "target"),
    "linkfollow": lambda path: ("linkfollow", path, "target"),
    "renameto": lambda path: ("rename", "source", path),
    "renamefrom": lambda path: ("rename", path, "target"),
    "unlink": lambda path: ("unlink", path),
    "rmdir": lambda path: ("rmdir", path),
    "chmod": lambda path: ("chmod", path, 0o700),
    "chown": lambda path: ("chown", path, 5001, 5001),
    "lchown": lambda path: ("lchown", path, 5001, 5001),
    "truncate": lambda path: ("truncate", path, 10),
    "utimens": lambda path: ("utimens", path, (5, 5), (5, 5)),
    "lutimens": lambda path: ("utimens", path, (5, 5), (5, 5), 0x100),
    "stat": lambda path: ("stat", path),
    "lstat": lambda path: ("lstat", path),
    "statvfs": lambda path: ("statvfs", path),
    "readlink": lambda path: ("readlink", path),
    "listdir": lambda path: ("listdir", path),
    "access": lambda path: ("access", path, os.R_OK),
    "chdir": lambda path: ("chdir", path),
}


def strange(call):
    """Components that are files, missing, loops; slashes and dots at the end."""

    def case(t):
        here = os.getcwd()
        t.make("file", "source")
        for kind in TYPES + ("full",):
            t.make(kind, kind)
        os.symlink("dir/", "dirslash")
        os.symlink("./full/../file", "winding")
        os.symlink("file/", "fileslash")
        for path in [f"{kind}{end}" for kind in TYPES + ("full", "missing", "dirslash", "winding", "fileslash")
                     for end in ("/x", "", "/", "/.", "/..", "//")] + ["", ".", "./", "full/inner/", "full/../file"]:
            for name in (path, "target"):
                pass
            t.do("root", *ONE[call](path))
            os.chdir(here)
            for name in os.listdir("."):
                if name == "target":
                    t.show("target")
                    (os.rmdir if os.path.isdir(name) and not os.path.islink(name) else os.unlink)(name)
            if not os.path.lexists("source"):
                t.make("file", "source")
            for kind in TYPES:
                if not os.path.lexists(kind):
                    if os.path.lexists(f"{kind}.target"):
                        (os.rmdir if kind == "dirlink" else os.unlink)(f"{kind}.target")
                    t.make(kind, kind)
        t.do("root", "listdir", ".")

    return case


def lengths(call):
    """Names of 255 and 256 bytes, paths of PATH_MAX and beyond."""

    def case(t):
        here = os.getcwd()
        t.make("file", "source")
        for length in (254, 255, 256, 257, 4095, 5000):
            t.do("root", *ONE[call]("n" * length))
            os.chdir(here)
            for name in ("n" * 254, "n" * 255, "target"):
                if os.path.lexists(name):
                    (os.rmdir if os.path.isdir(name) else os.unlink)(name)
            if not os.path.lexists("source"):
                t.make("file", "source")
        # A path of exactly PATH_MAX with its end, and one byte more: "./././...x".
        for length in (4094, 4095, 4096):
            path = "./" * ((length - 1) // 2) + "x" * (2 - length % 2)
            t.make("file", path[-2:].strip("/"))
            t.do("root", *ONE[call](path))
            os.chdir(here)
            for name in os.listdir("."):
                if name != "source":
                    (os.rmdir if os.path.isdir(name) else os.unlink)(name)
            if not os.path.lexists("source"):
                t.make("file", "source")

    return case


def chains(call):
    """Symbolic links that lead to one another: 39, 40 and 41 of them, and in a circle."""

    def case(t):
        here = os.getcwd()
        t.make("file", "source")
        os.mkdir("end")
        previous = "end"
        for number in range(1, 43):
            os.symlink(previous, f"l{number}")
            previous = f"l{number}"
        os.symlink("b", "a")
        os.symlink("a", "b")
        for path in ("l1/x", "l39/x", "l40/x", "l41/x", "l40", "l41", "a", "a/x", "b/x/y"):
            t.do("root", *ONE[call](path))
            os.chdir(here)
            for name in ("end/x", "target"):
                if os.path.lexists(name):
                    (os.rmdir if os.path.isdir(name) else os.unlink)(name)
            if not os.path.lexists("source"):
                t.make("file", "source")

    return case


def unsearchable(call):
    """A directory on the way without search rights for the caller."""

    def case(t):
        here = os.getcwd()
        os.chmod(".", 0o777)
        t.make("file", "source", "owner", 0o666)
        for mode in (0o600, 0o070, 0o007, 0o000, 0o711):
            name = f"d{mode:o}"
            t.make("dir", name, "owner", mode)
            t.make("dir", f"{name}/in", "owner", 0o777)
            t.make("file", f"{name}/x", "owner", 0o666)
            for who in ("owner", "member", "other", "root"):
                for path in (f"{name}/x", f"{name}/in/y", f"{name}/missing", f"{name}/in"):
                    t.do(who, *ONE[call](path))
                    os.chdir(here)
                    if os.path.lexists("target"):
                        (os.rmdir if os.path.isdir("target") else os.unlink)("target")
                    if not os.path.lexists("source"):
                        t.make("file", "source", "owner", 0o666)

    return case


def targets(t):
    """Targets of symbolic links up to the longest."""
    for length in (1, 59, 60, 255, 256, 512, 1000, 1023, 1024, 2000, 4000, 4095, 4096, 5000):
        t.do("root", "symlink", f"s{length}", ("x/" * length)[:length])
        t.show(f"s{length}")
        t.do("root", "readlink", f"s{length}")
    t.do("root", "symlink", "empty", "")


def addresses(t):
    """Paths at addresses that cannot be read."""
    t.make("file", "f")
    for name, words in {"mkdir": (None, 0o755), "unlink": (None,), "rmdir": (None,), "rename": ("f", None),
                        "link": ("f", None), "symlink": (None, "s"), "chmod": (None, 0o644), "open": (None, 0),
                        "chown": (None, 0, 0), "lchown": (None, 0, 0), "truncate": (None, 0), "mkfifo": (None, 0o644)
                        }.items():
        t.note(name, t.attempt(faulty(name), *words))


def deep(t):
    """Directories deeper than PATH_MAX, step by step, and back."""
    here = os.getcwd()
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    t.do("root", "open", "f", os.O_CREAT | os.O_WRONLY)
    t.show("f")
    t.do("root", "unlink", "f")
    t.note("getcwd", len(t.attempt(os.getcwd)) - len(here))
    for _ in range(30):
        os.chdir("..")
        t.do("root", "rmdir", "d" * 200)
    t.note("back", os.getcwd() == here)


def cases():
    for call in ONE:
        yield f"path/strange/{call}", strange(call)
        yield f"path/length/{call}", lengths(call)
        yield f"path/chain/{call}", chains(call)
        yield f"path/search/{call}", unsearchable(call)
    yield "path/symlink-targets", targets
    yield "path/addresses", addresses
    yield "path/deep", deep
