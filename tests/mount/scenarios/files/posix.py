"""POSIX names, attributes and rights: every call has the same result on the mount and on a plain directory beside
it."""

import errno
import os
import stat
import subprocess

import processes
from conformance import calls
from conformance.compare import compare
from rig import Failure, check, equal, errno_of, note, scenario

from .users import NOBODY, OTHER, as_user, read, write


def _same(mounted, plain, pattern="*", every=1):
    cases, checks, found = compare(mounted, plain, pattern, every)
    if cases == 0:  # so few that none is every n-th
        cases, checks, found = compare(mounted, plain, pattern, 1)
    check(cases > 0, f"no case is named {pattern}")
    for line in found:
        note(f"DIFFERS {line}")
    if found:
        raise Failure(f"{len(found)} of {checks} checks differ, the first: {found[0]}")


def _directories(rig):
    """Two empty directories, one on the mount and one beside the export on the same file system."""
    pair = rig.root / "posix", rig.base / "plain"
    for directory in pair:
        directory.mkdir()
        directory.chmod(0o755)
    return pair


@scenario(timeout=900, where="mount")
def posix(rig):
    """Names, attributes and rights against a plain directory: 70,000 checks, or a third (POSIX_CASES=PATTERN: some)."""
    pattern = os.environ.get("POSIX_CASES")
    _same(*_directories(rig), pattern or "*", 1 if rig.full or pattern else 3)


@scenario(timeout=900, where="server")
def posix_noac(rig):
    """The same without caches, some of them."""
    rig.export.chmod(0o755)
    rig.root = rig.mount(rig.serve(), "noac,lookupcache=none")
    pair = _directories(rig)
    for pattern in ("create/existing/*", "rename/plain/*", "rename/self", "link/type/*", "unlink/type/*", "rmdir/*",
                    "path/strange/*", "open/rw/*", "truncate/held", "write/bits/*", "exec/*", "utimens/rights/*"):
        _same(*pair, pattern, 1 if rig.full else 4)


@scenario(timeout=60, where="server")
def read_only(rig):
    """A read-only mount, and an export that is read-only, refuse every change with EROFS."""
    rig.export.chmod(0o755)
    tree = rig.export / "tree"
    tree.mkdir(0o777)
    for name in ("file", "other"):
        (tree / name).write_text("content")
    (tree / "dir").mkdir()
    (tree / "link").symlink_to("file")
    (tree / "run").write_bytes(b"#!/bin/sh\nexit 3\n")
    (tree / "run").chmod(0o755)
    server = rig.serve([f"/rw={rig.export},rw,no_root_squash"])
    still = rig.serve([f"/data={rig.export},ro,no_root_squash"])
    for where, options, server, export in (("mount", "ro", server, "/rw"), ("export", "", still, "/data")):
        point = rig.base / f"ro-{where}"
        point.mkdir()
        os.chdir(rig.mount(server, options, export, point) / "tree")
        for words in (("mkdir", "new"), ("mkfifo", "new"), ("symlink", "new", "x"), ("link", "file", "new"),
                      ("rename", "file", "new"), ("rename", "file", "other"), ("rename2", "file", "other", 2),
                      ("unlink", "file"), ("rmdir", "dir"), ("chmod", "file", 0o600), ("chown", "file", 1, 1),
                      ("lchown", "link", 1, 1), ("chown", "file", -1, -1), ("truncate", "file", 0),
                      ("utimens", "file", (1, 1), (1, 1)), ("utimens", "file", (0, calls.NOW), (0, calls.NOW)),
                      ("open", "new", os.O_CREAT | os.O_WRONLY), ("open", "file", os.O_WRONLY),
                      ("open", "file", os.O_RDWR), ("open", "file", os.O_RDONLY | os.O_TRUNC),
                      ("mknod", "new", stat.S_IFREG | 0o644)):
            equal(errno_of(calls.CALLS[words[0]], *words[1:]), errno.EROFS, f"read-only {where}: {words}")
        equal(errno_of(os.mkdir, "dir"), errno.EEXIST, "mkdir of an existing name")
        equal(read("file"), b"content", "reading")
        equal(os.readlink("link"), "file", "link")
        equal(subprocess.run(["./run"], check=False).returncode, 3, "a program")
        os.chdir("/")


def _options(point):
    with open("/proc/self/mounts", encoding="utf-8") as table:
        return [line.split()[3] for line in table if line.split()[1] == str(point)][-1].split(",")


def _use_own(directory):
    """The calls that the creator of a file may make on it."""
    path = directory / f"own{os.getuid()}"
    write(path, b"made", mode=0o600)
    with open(path, "ab") as file:
        file.write(b", appended")
    os.chmod(path, 0o640)
    os.utime(path, (1, 1))
    os.truncate(path, 4)
    if read(path) != b"made" or os.stat(path).st_mode & 0o777 != 0o640:
        raise OSError(errno.EIO, "not what was made")
    if not os.access(path, os.R_OK | os.W_OK):
        raise OSError(errno.EACCES, "access(2)")
    os.mkdir(directory / "own", 0o700)
    write(directory / "own" / "inner")
    os.unlink(directory / "own" / "inner")
    os.rmdir(directory / "own")
    os.unlink(path)


@scenario(timeout=60, where="server")
def squashes(rig):
    """all_squash maps every user to the anonymous user, whose ids are anonuid and anongid."""
    rig.export.chmod(0o777)
    server = rig.serve([f"/all={rig.export},rw,all_squash,anonuid=4001,anongid=4002"])
    elsewhere = rig.serve([f"/root={rig.export},rw,root_squash,anonuid=4003,anongid=4004"])
    everybody = rig.mount(server, export="/all")
    for uid in (NOBODY, OTHER):
        equal(as_user(uid, lambda: write(everybody / f"of{os.getuid()}")), 0, "a file of any user")
    write(everybody / "of-root")
    for name in (f"of{NOBODY}", f"of{OTHER}", "of-root"):
        status = (rig.export / name).stat()
        equal((status.st_uid, status.st_gid), (4001, 4002), f"owner of {name}")
    # The kernel does not know the server's permissions, so only the server checks.
    check("default_permissions" not in _options(everybody), "the kernel checks permissions of a squashed export")
    for uid in (0, NOBODY, OTHER):
        equal(as_user(uid, lambda: _use_own(everybody)), 0, f"user {uid} uses a file that it made")
        equal(as_user(uid, lambda: read(everybody / f"of{OTHER}")), 0, f"user {uid} reads another's file")
    rig.umount(everybody)
    rig.mount(server, "default_permissions", export="/all", point=everybody)
    check("default_permissions" in _options(everybody), "default_permissions is not in effect")
    check("all_squash" in (rig.logs / "mount.dafs.log").read_text(), "no word about what that means")
    rooted = rig.base / "rooted"
    rooted.mkdir()
    rig.mount(elsewhere, export="/root", point=rooted)
    write(rooted / "by-root")
    equal(as_user(OTHER, lambda: write(rooted / "by-other")), 0, "a user's file")
    equal([((rig.export / name).stat().st_uid, (rig.export / name).stat().st_gid) for name in ("by-root", "by-other")],
          [(4003, 4004), (OTHER, OTHER)], "owners")
    check("default_permissions" in _options(rooted), "the kernel checks no permissions of users")
    for uid in (0, OTHER):
        equal(as_user(uid, lambda: _use_own(rooted)), 0, f"user {uid} uses a file that it made")
    check(errno_of(os.chmod, rooted / "by-other", 0o600) in (errno.EPERM, errno.EACCES), "root's chmod of another's file")


@scenario(timeout=60, where="server")
def squashes_in_part(rig):
    """On the directory of exports the kernel checks permissions unless all exports are all_squash; a mix is logged."""
    mixed, other = rig.base / "mixed", rig.base / "other"
    for directory in (mixed, other):
        directory.mkdir()
    rig.export.chmod(0o777)
    squashing = f"/all={rig.export},rw,all_squash,anonuid=4001,anongid=4002"
    write(mixed / "secret", mode=0o600)
    server = rig.serve([squashing, f"/mixed={mixed},rw", f"/closed={other},rw,clients=192.0.2.0/24"])
    point = rig.mount(server, export="/")
    log = rig.logs / "mount.dafs.log"
    check("default_permissions" in _options(point), "the kernel checks no permissions of users of an export")
    check(processes.wait_until(lambda: "some of the exports map all users to one" in log.read_text(), 10),
          "no word about the others")  # logged when programs may already use the mount
    equal(as_user(OTHER, lambda: read(point / "mixed/secret")), errno.EACCES, "another user reads a secret file")
    equal(as_user(OTHER, lambda: write(point / "all/mine")), 0, "a file of any user")
    rig.umount(point)
    # Every export that admits this client has all_squash.
    server = rig.serve([squashing, f"/closed={other},rw,clients=192.0.2.0/24"])
    point = rig.mount(server, export="/")
    check("default_permissions" not in _options(point), "the kernel checks permissions of squashed exports")
    equal(as_user(OTHER, lambda: _use_own(point / "all")), 0, "a user uses a file that it made")
    equal(log.read_text().count("some of the exports map"), 1, "lines about some exports")


# Calls on a name that the kernel has cached and another machine has removed.
ON_NAMES = {
    "stat": os.stat, "open": read, "write": write, "chmod": lambda p: os.chmod(p, 0o600), "unlink": os.unlink,
    "truncate": lambda p: os.truncate(p, 1), "utime": lambda p: os.utime(p, (1, 1)), "chown": lambda p: os.chown(p, 1, 1),
    "link": lambda p: os.link(p, f"{p}.link"), "rename": lambda p: os.rename(p, f"{p}.moved"), "readlink": os.readlink,
    "execute": lambda p: subprocess.run([p], check=True),
}


def _put(path, call, text):
    if call == "readlink":
        path.symlink_to(text)
    else:
        path.write_text(f"#!/bin/true\n{text}\n")
        path.chmod(0o755)


@scenario(timeout=60, where="server")
def elsewhere(rig):
    """After names are moved, removed or replaced on the server, paths are walked again; no call fails with ESTALE."""
    rig.export.chmod(0o755)
    point = rig.mount(rig.serve(), "actimeo=60")
    for name, call in ON_NAMES.items():
        for fate in ("replaced", "removed"):
            thing = rig.export / f"{name}-{fate}"
            _put(thing, name, "first")
            os.lstat(point / thing.name)  # the kernel caches it
            thing.unlink()
            if fate == "replaced":
                _put(thing, name, "second")
            number = errno_of(call, point / thing.name)
            if fate == "replaced" or name == "write":
                equal(number, 0, f"{name} of what was {fate} elsewhere")
            else:  # the kernel may show cached names for the cache times
                remembered = name in ("stat", "readlink") and number == 0
                check(number == errno.ENOENT or remembered, f"{name} of what was removed: errno {number}")
    point = rig.base / "all"
    point.mkdir()
    rig.mount(rig.servers[0], "actimeo=60,lookupcache=all", point=point)
    check(not os.path.lexists(point / "appears"), "there is a name already")
    (rig.export / "appears").symlink_to("through")
    write(point / "appears", b"followed")
    equal((rig.export / "through").read_bytes(), b"followed", "written through a link that appeared elsewhere")
    for name in ("pipe", "socket", "null"):
        check(not os.path.lexists(point / name), f"there is a {name} already")
    os.mkfifo(rig.export / "pipe")
    os.mknod(rig.export / "socket", stat.S_IFSOCK | 0o600)
    os.mknod(rig.export / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    for name, expected in (("pipe", 0), ("socket", errno.ENXIO), ("null", 0)):
        equal(errno_of(calls.opened, point / name, os.O_CREAT | os.O_RDWR), expected, f"O_CREAT of a {name} made elsewhere")
    away = rig.export / "away"
    away.mkdir()
    (away / "file").write_text("text")
    equal(read(point / "away" / "file"), b"text", "before")
    away.rename(rig.export / "gone")
    equal(read(point / "gone" / "file"), b"text", "in a directory that was renamed")


@scenario(timeout=60, where="server")
def two_exports(rig):
    """A mount of the server's root shows its exports; nothing is linked or renamed between them."""
    rig.export.chmod(0o755)
    for name in ("one", "two"):
        (rig.export / name).mkdir()
        (rig.export / name / "file").write_text(name)
    server = rig.serve([f"/one={rig.export}/one,rw,no_root_squash", f"/two={rig.export}/two,rw,no_root_squash"])
    os.chdir(rig.mount(server, export="/"))
    equal(sorted(os.listdir(".")), ["one", "two"], "exports")
    for call in (os.rename, os.link):
        equal(errno_of(call, "one/file", "two/new"), errno.EXDEV, f"{call.__name__} between exports")
    equal(errno_of(calls.rename2, "one/file", "two/file", calls.EXCHANGE), errno.EXDEV, "exchange between exports")
    for call in (lambda: os.mkdir("three"), lambda: os.rmdir("one"), lambda: os.rename("one", "three")):
        check(errno_of(call) in (errno.EROFS, errno.EXDEV, errno.EBUSY), f"a change among exports: {errno_of(call)}")
    os.rename("one/file", "one/moved")
    equal(read("one/moved"), b"one", "renamed within an export")
    os.chdir("/")


@scenario(timeout=60, where="server")
def mount_over(rig):
    """A mount over a mount hides it, and gives it back."""
    rig.export.chmod(0o755)
    for name in ("lower", "upper"):
        (rig.export / name).mkdir()
        (rig.export / name / name).write_text(name)
    server = rig.serve([f"/lower={rig.export}/lower,rw,no_root_squash", f"/upper={rig.export}/upper,rw,no_root_squash"])
    point = rig.mount(server, export="/lower")
    held = os.open(point / "lower", os.O_RDWR)
    first = rig.mounted[point]
    rig.mount(server, export="/upper")
    check(processes.wait_until(lambda: os.listdir(point) == ["upper"], 20), "the upper mount does not show")
    os.write(held, b"still")
    rig.umount(point)
    rig.mounted[point] = first
    equal(os.listdir(point), ["lower"], "the lower mount shows again")
    equal(os.pread(held, 10, 0), b"still", "the lower mount's file")
    os.close(held)
    rig.umount(point)
