"""Removing names: unlink, rmdir. Types, rights, sticky directories, link counts, files that are open."""

import os

from .cases_create import DIR_MODES
from .subject import TYPES

EVERYBODY = ("root", "owner", "member", "other")


def types(call, kind):
    def case(t):
        os.chmod(".", 0o777)
        os.mkdir("d")
        os.chmod("d", 0o777)
        for who in ("other", "owner", "root"):
            path = f"d/{who}"
            t.make(kind, path)
            if kind not in ("dir", "full", "dirlink"):
                os.link(path, f"{who}2", follow_symlinks=False)
            t.do(who, call, path + "/", watch=("d",))
            t.do(who, call, path, watch=("d", f"{who}2"))
            t.do(who, call, path)
        t.do("root", "listdir", "d")

    return case


def rights(call, mode):
    def case(t):
        t.make("dir", "d", "owner")
        for who in EVERYBODY + ("insider",):
            for kind in ("file", "dir", "link"):
                path = f"d/{kind}{who}"
                t.make(kind, path, "nobody")
                os.chmod("d", mode)
                t.do(who, call, path, watch=("d", path))
                os.chmod("d", 0o777)

    return case


def sticky(call, dir_owner, file_owner):
    """In a sticky directory only the owners of file and directory may remove."""

    def case(t):
        t.make("dir", "d", dir_owner)
        os.chmod("d", 0o1777)
        for who in EVERYBODY:
            for kind in ("file", "dir", "link", "fifo"):
                path = f"d/{kind}{who}"
                t.make(kind, path, file_owner)
                t.do(who, call, path, watch=("d", path))

    return case


def still_open(t):
    """A file without a name works on through its descriptors."""
    t.make("file", "f")
    os.link("f", "f2")
    descriptor = t.hold(os.open("f", os.O_RDWR))

    def show(what):
        status = os.fstat(descriptor)
        t.note(what, (status.st_nlink, oct(status.st_mode), status.st_size, status.st_uid))

    show("two names")
    t.do("owner", "unlink", "f", watch=("f2",))
    t.do("root", "unlink", "f", watch=("f2",))
    show("one name")
    before = os.fstat(descriptor).st_ctime_ns
    t.rest()
    t.do("root", "unlink", "f2")
    show("no name")
    t.note("ctime moved", os.fstat(descriptor).st_ctime_ns != before)
    os.write(descriptor, b"abc")
    os.fchmod(descriptor, 0o640)
    os.ftruncate(descriptor, 10)
    os.fchown(descriptor, 5004, 5004)
    show("changed without a name")
    t.note("content", os.pread(descriptor, 100, 0))
    t.do("root", "open", f"/proc/self/fd/{descriptor}", os.O_RDWR)
    t.do("root", os.link, f"/proc/self/fd/{descriptor}", "back")
    os.mkdir("gone")
    inside = t.hold(os.open("gone", os.O_RDONLY))
    os.rmdir("gone")
    t.do("root", lambda: os.mkdir("x", dir_fd=inside))  # what else it can do: see DIFFERENCES


def dots(t):
    os.mkdir("d")
    for path in (".", "..", "d/.", "d/..", "d/", "d//", "/", ""):
        for call in ("unlink", "rmdir"):
            t.do("root", call, path)
        if not os.path.isdir("d"):
            os.mkdir("d")


def parents(t):
    """Link counts and times of directories as others come and go in them."""
    os.mkdir("d")
    for number in range(3):
        t.do("root", "mkdir", f"d/{number}", watch=("d", "."))
    t.do("root", "rmdir", "d", watch=("d",))
    for number in range(3):
        t.do("root", "rmdir", f"d/{number}", watch=("d", "."))
    t.do("root", "rmdir", "d", watch=(".",))


def cases():
    for call in ("unlink", "rmdir"):
        for kind in TYPES + ("full",):
            yield f"{call}/type/{kind}", types(call, kind)
        for mode in DIR_MODES:
            yield f"{call}/rights/{mode:04o}", rights(call, mode)
        for dir_owner in ("root", "owner", "other"):
            for file_owner in ("root", "owner", "other", "nobody"):
                yield f"{call}/sticky/{dir_owner}/{file_owner}", sticky(call, dir_owner, file_owner)
    yield "unlink/open", still_open
    yield "remove/dots", dots
    yield "rmdir/parents", parents
