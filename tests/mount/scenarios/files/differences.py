"""The table DIFFERENCES of mount.dafs(8): its rows on names, attributes and rights are true."""

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import stat
import struct

import pytest

from conformance import calls
from conformance.subject import become
from rig import check, equal, errno_of, scenario

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
    """noatime and O_NOATIME leave the access time at the server unchanged by reads."""
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
            pytest.skip("the file system of the export keeps no times of access")
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
    os.unlink("emptied/file")  # the reply carries the directory's attributes from before its removal
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
    """Opens by root and writes by a user, and the other way round."""
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


FS_IOC_GETFLAGS = 0x80086601
FS_IOC_FIEMAP = 0xC020660B
FICLONE = 0x40049409
IN_CREATE = 0x100
SYS_MOUNT_SETATTR = 442
SYS_OPEN_TREE = 428
OPEN_TREE_CLONE = 1
AT_EMPTY_PATH = 0x1000
MOUNT_ATTR_IDMAP = 0x100000
CLONE_NEWUSER = 0x10000000


@scenario(timeout=60, where="server")
def differences_of_machines(rig):
    """Rows of the table DIFFERENCES on things that other machines cannot see, or that no FUSE mount supports."""
    server = rig.serve()
    first = rig.mount(server)
    second = rig.base / "mnt2"
    second.mkdir()
    rig.mount(server, point=second)
    (first / "file").write_bytes(b"x" * 8192)
    with open(first / "file", "r+b") as file, open(first / "other", "wb") as other:
        equal(errno_of(fcntl.ioctl, file, FS_IOC_GETFLAGS, struct.pack("l", 0)), errno.ENOTTY, "lsattr")
        fiemap = struct.pack("=QQLLLL", 0, 1 << 20, 0, 0, 0, 0)
        equal(errno_of(fcntl.ioctl, file, FS_IOC_FIEMAP, fiemap), errno.EOPNOTSUPP, "FIEMAP")
        equal(errno_of(fcntl.ioctl, other, FICLONE, file.fileno()), errno.EOPNOTSUPP, "cp --reflink")
    _handles(first, second)
    _watches(first, second)
    _leases(first, second)
    equal(_idmapped(first), errno.EINVAL, "an idmapped mount")


def _handles(first, second):
    """A handle opens its file on its own mount while the kernel caches the file, and no file on another mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    mount_id = ctypes.c_int()

    def opened(point, handle):
        directory = os.open(point, os.O_RDONLY)
        ctypes.set_errno(0)
        found = libc.open_by_handle_at(directory, handle, os.O_RDONLY)
        os.close(directory)
        return found, ctypes.get_errno()

    # Mounts use the same inode numbers: among this number of files some have the same number on both.
    with contextlib.ExitStack() as stack:
        handles = []
        for i in range(200):
            handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 8 + 128)
            for point in (first, second):
                stack.enter_context(open(point / f"{point.name}-{i}", "w", encoding="ascii")).write(f"{i}")
            equal(libc.name_to_handle_at(-100, os.fsencode(first / f"{first.name}-{i}"), handle, ctypes.byref(mount_id), 0), 0,
                  "name_to_handle_at")
            handles.append(handle)
        for i, handle in enumerate(handles):
            found, number = opened(first, handle)
            equal(number, 0, "open_by_handle_at on the mount of the handle")
            equal(os.stat(found).st_ino, os.stat(first / f"{first.name}-{i}").st_ino, "what the handle opens")
            os.close(found)
            equal(opened(second, handle), (-1, errno.ESTALE), f"open_by_handle_at of file {i} on another mount")


def _watches(first, second):
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    check(libc.inotify_add_watch(watch, os.fsencode(first), IN_CREATE) >= 0, "inotify_add_watch")
    (second / "elsewhere").write_text("x")
    check((first / "elsewhere").exists(), "a file of another mount")
    equal(select.select([watch], [], [], 0)[0], [], "events of what another mount does")
    (first / "here").write_text("x")
    equal(select.select([watch], [], [], 10)[0], [watch], "events of what this mount does")
    os.close(watch)


def _leases(first, second):
    """A lease is broken by an open of the same mount, and not by one of another."""
    broken = []
    before = signal.signal(signal.SIGIO, lambda *_: broken.append(1))
    (first / "leased").write_text("x")
    with open(first / "leased", "rb") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        (second / "leased").write_text("y")
        equal(broken, [], "leases broken by another mount")
        equal(errno_of(calls.opened, first / "leased", os.O_WRONLY | os.O_NONBLOCK), errno.EAGAIN, "an open here")
        equal(broken, [1], "leases broken by this mount")
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    signal.signal(signal.SIGIO, before)


def _idmapped(point):
    """The errno of mount_setattr(2) with a user namespace that maps 0 to 1000."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc.unshare(CLONE_NEWUSER)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    for kind in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{kind}", "w", encoding="ascii") as file:
            file.write("0 1000 1")
    namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    tree = libc.syscall(SYS_OPEN_TREE, -100, os.fsencode(point), OPEN_TREE_CLONE)
    check(tree >= 0, "open_tree")
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_IDMAP, 0, 0, namespace)
    ctypes.set_errno(0)
    libc.syscall(SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, len(attributes))
    error = ctypes.get_errno()
    os.close(tree)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for descriptor in (namespace, *ready, *go):
        os.close(descriptor)
    return error
