"""Names in the kernel's cache that another machine moved, removed or replaced: looked up again instead of ESTALE."""

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
    """Lists a directory again that was opened and not listed before."""
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
    """The mount caches everything about the path."""
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
    """Calls on a name that the server has replaced by another file, directory or link never fail with ESTALE."""
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
    """A directory removed on the server while a program's current directory: it is empty, as on a local system."""
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
    """A directory moved by another mount can be renamed or replaced without an earlier look-up."""
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


KINDS = {
    "file": lambda path: path.write_text("old file"),
    "directory": lambda path: (path.mkdir(), (path / "old").touch()),
    "link": lambda path: path.symlink_to("old-target"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to a directory": lambda path: path.symlink_to("old-directory"),
    "FIFO": os.mkfifo,
}


def look_at(path):
    """Uses the path, if it exists, as often as the kernel needs to cache it."""
    for _ in range(2):
        os.lstat(path)
        try:
            if path.is_dir():
                equal(os.listdir(path), ["old"], "names before")
            elif path.is_file():
                path.read_text()
        except FileNotFoundError:
            pass


def contents_of(path):
    """Returns the content that open(2) finds. It must not open a FIFO or a directory in place of the new file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@scenario(timeout=60, where="server")
def retyped_elsewhere(rig):
    """open(2) finds at once the file that another mount put in place of a name, whatever the types of both."""
    here, there = rig.mount_twice()
    (here / "old-target").write_text("old target")
    (here / "new-target").write_text("new target")
    for version in ("old", "new"):
        (here / f"{version}-directory").mkdir()
        (here / f"{version}-directory" / "old").write_text(f"in the {version} directory")
    new = {
        "file": (lambda path: path.write_text("new file"), b"new file"),
        "link": (lambda path: path.symlink_to("new-target"), b"new target"),
    }
    number = 0
    for old, make_old in KINDS.items():
        for kind, (make_new, expected) in new.items():
            for moves in (False, True):
                number += 1
                name = f"{number}"
                make_old(here / name)
                look_at(there / name)
                make_new(here / "new")
                if moves or old == "directory":
                    os.rename(here / name, here / f"{name}-away")
                os.rename(here / "new", here / name)
                equal(contents_of(there / name), expected, f"{old} made {kind}")
    for kind in ("file", "link", "FIFO"):
        number += 1
        name = f"{number}"
        KINDS[kind](here / name)
        look_at(there / name)
        (here / name).unlink()
        (here / name).mkdir()
        (here / name / "new").touch()
        opened = os.open(there / name, os.O_RDONLY)  # with O_DIRECTORY the kernel refuses a file that it remembers
        equal(os.listdir(opened), ["new"], f"{kind} made directory")
        os.close(opened)
    (here / "current").symlink_to("old-directory")
    for version in ("old", "new", "old"):
        (here / "next").symlink_to(f"{version}-directory")
        os.rename(here / "next", here / "current")
        equal((there / "current" / "old").read_text(), f"in the {version} directory", "through a switched link")
    (here / "directory").mkdir()
    (here / "directory" / "old").touch()
    look_at(there / "directory")
    os.rename(here / "directory", here / "directory-away")
    (here / "directory").mkdir()
    (here / "directory" / "new").touch()
    equal(os.listdir(there / "directory"), ["new"], "directory made another directory")
    equal(os.listdir(there / "directory-away"), ["old"], "the directory that was moved")
