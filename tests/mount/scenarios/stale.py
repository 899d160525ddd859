"""What the kernel knows and another has moved, removed or replaced meanwhile: it looks again instead of ESTALE."""

import errno
import os
import shutil

from rig import check, equal, scenario


def make(path, kind):
    if kind == "file":
        path.write_text("what is new")
    elif kind == "link":
        path.symlink_to("target")
    else:
        path.mkdir()
        (path / "in").touch()
        (path / "sub").mkdir()


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def opened(path, flags):
    os.close(os.open(path, flags))


def opened_below(path):
    directory = os.open(path, os.O_DIRECTORY)
    try:
        os.close(os.open("in", os.O_RDONLY, dir_fd=directory))
    finally:
        os.close(directory)


def listed_twice(path):
    """The second listing is of a directory that was not listed when it was opened last."""
    os.close(os.open(path, os.O_DIRECTORY))
    return os.listdir(path)


CALLS = {
    "open": lambda o: opened(o, os.O_RDONLY),
    "read": lambda o: o.read_text(),
    "open to write": lambda o: opened(o, os.O_RDWR),
    "open and cut": lambda o: opened(o, os.O_RDWR | os.O_TRUNC),
    "create": lambda o: opened(o, os.O_RDWR | os.O_CREAT),
    "create anew": lambda o: opened(o, os.O_RDWR | os.O_CREAT | os.O_EXCL),
    "stat": os.stat,
    "chmod": lambda o: os.chmod(o, 0o700),
    "chown": lambda o: os.chown(o, 1, 1, follow_symlinks=False),
    "utime": lambda o: os.utime(o, follow_symlinks=False),
    "truncate": lambda o: os.truncate(o, 5),
    "rename": lambda o: os.rename(o, o.with_name("renamed")),
    "replace": lambda o: os.rename(o.with_name("other"), o),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir in it": lambda o: os.mkdir(o / "new"),
    "create in it": lambda o: (o / "new").touch(),
    "symlink in it": lambda o: os.symlink("a", o / "new"),
    "mkfifo in it": lambda o: os.mkfifo(o / "new"),
    "link in it": lambda o: os.link(o.with_name("other"), o / "new"),
    "link": lambda o: os.link(o, o.with_name("linked"), follow_symlinks=False),
    "readlink": os.readlink,
    "setxattr": lambda o: os.setxattr(o, "user.a", b"1", follow_symlinks=False),
    "getxattr": lambda o: os.getxattr(o, "user.b", follow_symlinks=False),
    "listxattr": lambda o: os.listxattr(o, follow_symlinks=False),
    "statfs": os.statvfs,
    "access": lambda o: os.access(o, os.R_OK),
    "list": os.listdir,
    "open, list": listed_twice,
    "open below": opened_below,
    "stat in it": lambda o: os.stat(o / "in"),
    "open in it": lambda o: opened(o / "in", os.O_RDWR),
    "chmod in it": lambda o: os.chmod(o / "in", 0o600),
    "unlink in it": lambda o: os.unlink(o / "in"),
    "rename in it": lambda o: os.rename(o / "in", o / "out"),
    "rename out of it": lambda o: os.rename(o / "sub", o.with_name("moved")),
    "rmdir in it": lambda o: os.rmdir(o / "sub"),
    "list in it": lambda o: os.listdir(o / "sub"),
}


def know(path, kind):
    """The mount looks at all there is to know of it."""
    os.lstat(path)
    if kind == "directory":
        for below in (path, path / "sub"):
            equal(os.listdir(below) != [], below == path, "names")
        os.stat(path / "in")
    elif kind == "file":
        equal(path.read_text(), "what is new", "contents")
    else:
        os.readlink(path)


@scenario(timeout=120, where="server")
def replaced_elsewhere(rig):
    """Every call on what a program of the server has replaced by another file, directory or link: none sees ESTALE."""
    mount = rig.mount(rig.serve())
    kinds = ("file", "directory", "link")
    number = 0
    for old in kinds:
        for new in kinds:
            for name, call in CALLS.items():
                number += 1
                behind, there = rig.export / str(number), mount / str(number)
                behind.mkdir()
                (behind / "other").touch()
                make(behind / "o", old)
                know(there / "o", old)
                remove(behind / "o")
                make(behind / "o", new)
                try:
                    found = call(there / "o")
                except OSError as error:
                    check(error.errno not in (errno.ESTALE, errno.EIO), f"{name}, {old} made {new}: {error}")
                else:
                    if name.endswith("list") and new == "directory":
                        equal(sorted(found), ["in", "sub"], f"{name}, {old} made {new}")


@scenario(timeout=60, where="server")
def removed_elsewhere(rig):
    """A directory that a program of the server has removed, where somebody is in it: empty, as on a local system."""
    mount = rig.mount(rig.serve())
    (mount / "gone").mkdir()
    (mount / "gone" / "file").touch()
    os.chdir(mount / "gone")
    held = os.open(".", os.O_RDONLY)
    try:
        equal((os.listdir("."), os.listdir(held)), (["file"], ["file"]), "names before")
        shutil.rmtree(rig.export / "gone")
        for _ in range(3):
            equal(os.listdir("."), [], "names after")
            equal(os.listdir(held), [], "names by a descriptor")
        equal(os.fstat(held).st_nlink, 0, "links")
    finally:
        os.close(held)
        os.chdir("/")


@scenario(timeout=60, where="server")
def moved_elsewhere(rig):
    """A directory that another mount has moved is renamed, or replaced, without a look at it before."""
    for options in ("", "noac,lookupcache=none"):
        here, there = (point / (options or "cached") for point in rig.mount_twice(options))
        here.mkdir()
        for number, (old, new) in enumerate([("b/d", "c/d"), ("b/d", "a/d"), ("b/d", "a/e"), ("b/d", "b/e")]):
            top = f"{number}"
            for path in ("", "a", "b", "c", "a/d", "a/d/below", "other"):
                (here / top / path).mkdir()
            (here / top / "a/d/file").write_text(top)
            equal(len(list(os.walk(there / top))), 7, "directories")  # now it knows them all
            held = os.open(there / top / "a/d", os.O_RDONLY)
            os.rename(here / top / "a/d", here / top / "b/d")
            os.rename(there / top / old, there / top / new)
            equal(sorted(os.listdir(there / top / new)), ["below", "file"], f"{new} after the renames")
            equal((there / top / new / "file").read_text(), top, "the file in it")
            equal(sorted(os.listdir(held)), ["below", "file"], "by a descriptor from before")
            equal(os.fstat(held).st_ino, (rig.export / here.name / top / new).stat().st_ino, "inode number")
            os.close(held)
        for path in ("from", "from/empty", "to"):
            (here / path).mkdir()
        equal(len(list(os.walk(there / "from"))), 2, "directories")
        os.rename(here / "from/empty", here / "to/target")
        os.rename(there / "0/other", there / "to/target")
        equal(os.listdir(there / "to"), ["target"], "names after the replacement")
        for point in (there.parent, here.parent):
            rig.umount(point)
        there.parent.rmdir()
