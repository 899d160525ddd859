"""The table DIFFERENCES of mount.dafs(8): what it says of names, attributes and rights is so."""

import ctypes
import errno
import fcntl
import os
import stat

from conformance import calls
from conformance.subject import become
from rig import Skip, check, equal, errno_of, scenario

OLD = 1_000_000_000
PR_SET_KEEPCAPS = 8
CAPABILITY_VERSION_3 = 0x20080522
CAP_CHOWN = 0


@scenario(timeout=60, where="mount")
def differences(rig):
    """Rows of the table DIFFERENCES in mount.dafs(8) on names, attributes and rights."""
    os.chdir(rig.root)
    for row in (_access_times, _removed_directories, _path_descriptors, _whiteout, _parent_numbers, _set_id_bits):
        row(rig)
    os.chdir("/")


def _old(path):
    os.utime(path, (OLD, OLD), follow_symlinks=False)


def _atime(path):
    return int(os.lstat(path).st_atime)


def _access_times(rig):
    with open("read", "wb") as file:
        file.write(b"x" * 5000)
    _old("read")
    calls.drain("read")
    first = _atime("read")
    if _atime(rig.behind / "read") != OLD:  # unless the server's file system keeps none
        check(first != OLD, "a read that reached the server left the atime")
    with open("read", "rb") as held:
        held.read()
        os.utime("read", (OLD, os.stat("read").st_mtime))
        os.pread(held.fileno(), 100, 0)
    equal(_atime(rig.behind / "read"), OLD, "atime after a read from the cache")
    os.symlink("read", "walked")
    os.stat("walked")
    _old("walked")
    os.stat("walked")
    equal(_atime("walked"), OLD, "atime of a link that the mount knows, on a path")


@scenario(timeout=60, where="server")
def access_times(rig):
    """noatime and O_NOATIME keep the times of access of what is read at the server."""
    plain, second = rig.mount_twice()
    rig.umount(second)
    quiet = rig.mount(rig.servers[0], "noatime", point=second)
    (rig.export / "directory").mkdir()

    def moves(use, make=lambda path: path.write_bytes(b"x" * size), name="file"):
        path = rig.export / name
        make(path)
        _old(path)
        use(name)
        return _atime(path) != OLD

    def by_flag(name):
        os.close(_read_all(os.open(plain / name, os.O_RDONLY | os.O_NOATIME)))

    def by_fcntl(name):
        descriptor = os.open(plain / name, os.O_RDONLY)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NOATIME)
        os.close(_read_all(descriptor))

    for size in (100, 300_000):  # inline and direct
        if not moves(lambda name: (plain / name).read_bytes()):
            raise Skip("the file system of the export keeps no times of access")
        equal(moves(by_flag), False, f"O_NOATIME moved the time, {size} bytes")
        equal(moves(by_fcntl), False, f"O_NOATIME by fcntl moved the time, {size} bytes")
        equal(moves(lambda name: (quiet / name).read_bytes()), False, f"noatime moved the time, {size} bytes")
        equal(moves(lambda name: (plain / name).read_bytes()), True, "a read after those does not move it")
    equal(moves(lambda name: os.listdir(plain / name), lambda path: None, "directory"), True, "listing")
    equal(moves(lambda name: os.listdir(quiet / name), lambda path: None, "directory"), False, "listing with noatime")
    check(not moves(lambda name: rig.run([quiet / name]), _program, "program"), "noatime moved the time of a program")


def _read_all(descriptor):
    while os.read(descriptor, 1 << 16):
        pass
    return descriptor


def _program(path):
    path.write_text("#!/bin/true\n")
    path.chmod(0o755)


def _removed_directories(rig):
    os.mkdir("gone")
    descriptor = os.open("gone", os.O_RDONLY)
    os.rmdir("gone")
    equal(os.fstat(descriptor).st_nlink, 0, "links of a removed directory")
    os.mkdir("emptied")
    emptied = os.open("emptied", os.O_RDONLY)
    calls.opened("emptied/file", os.O_CREAT | os.O_WRONLY)
    os.unlink("emptied/file")  # brings the directory's attributes along, from before it goes
    os.rmdir("emptied")
    equal(os.fstat(emptied).st_nlink, 0, "links of a directory that was emptied and removed")
    os.close(emptied)
    equal(errno_of(os.fchmod, descriptor, 0o700), errno.ESTALE, "fchmod of a removed directory")
    os.close(descriptor)
    equal(errno_of(os.listdir, "gone"), errno.ENOENT, "listing a removed directory")
    os.mkdir("away")
    os.stat("away")
    (rig.behind / "away").rmdir()
    equal(errno_of(os.listdir, "away"), errno.ENOENT, "listing a directory removed elsewhere")


def _path_descriptors(_):
    with open("thing", "w", encoding="ascii"):
        pass
    descriptor = os.open("thing", os.O_PATH)
    os.unlink("thing")
    equal(errno_of(calls.opened, f"/proc/self/fd/{descriptor}", os.O_RDONLY), errno.ESTALE, "opening it again")
    os.close(descriptor)


def _whiteout(_):
    os.mkdir("layer")
    equal(errno_of(calls.rename2, "layer", "white", calls.WHITEOUT), errno.EINVAL, "RENAME_WHITEOUT")


def _set_id_bits(_):
    """Through root's descriptor and through a user's, by the other of both."""
    def written(opener, writer, mode):
        with open("bits", "w", encoding="ascii"):
            os.chmod("bits", 0o666)
        become(opener)
        descriptor = os.open("bits", os.O_RDWR)
        become("root")
        os.chmod("bits", mode)
        become(writer)
        os.write(descriptor, b"x")
        become("root")
        os.close(descriptor)
        return os.stat("bits").st_mode & 0o7777

    os.chmod(".", 0o777)
    equal(written("root", "root", 0o6777), 0o6777, "root writes")
    equal(written("root", "other", 0o6777), 0o777, "another through root's descriptor")
    equal(written("root", "other", 0o2745), 0o2745, "another through root's descriptor, without group execute")
    equal(written("other", "root", 0o6777), 0o777, "root through another's descriptor")


def _parent_numbers(_):
    for name in ("from", "to", "from/moved"):
        os.mkdir(name)
    listed = calls.numbers("from/moved")
    equal(listed[".."], os.stat("from").st_ino, "the number of ..")
    os.rename("from/moved", "to/moved")
    check(calls.numbers("to/moved")[".."] in (os.stat("from").st_ino, os.stat("to").st_ino), "the number of ..")
    equal(os.stat("to/moved/..").st_ino, os.stat("to").st_ino, "where .. leads")


@scenario(timeout=60, where="server")
def differences_more(rig):
    """Rows of the table DIFFERENCES that need a mount of their own: capabilities, long links in small messages."""
    rig.export.chmod(0o755)
    root = rig.mount(rig.serve(), "msgsize=1024")
    os.symlink("x" * 700, root / "short")
    equal(os.readlink(root / "short"), "x" * 700, "a link that fits")
    equal(errno_of(os.symlink, "x" * 1500, root / "long"), errno.ENAMETOOLONG, "a link that does not fit")
    os.symlink("y" * 4000, rig.export / "theirs")
    equal(os.readlink(root / "theirs"), "y" * 4000, "a long link of another's")
    (rig.export / "file").write_text("text")
    (rig.export / "file").chmod(0o600)
    check(stat.S_ISREG(os.stat(root / "file").st_mode), "not a file")
    equal(_with_chown(root / "file"), errno.EPERM, "chown by CAP_CHOWN without the user id 0")


def _with_chown(path):
    """The errno of chown(2) by a user who has the capability and is not root."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(1234)
        os.setuid(1234)
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        effective = permitted = 1 << CAP_CHOWN
        ok = libc.capset(header, (ctypes.c_uint32 * 6)(effective, permitted, 0, 0, 0, 0)) == 0
        os._exit(errno_of(os.chown, path, 1234, 1234) if ok else 255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
