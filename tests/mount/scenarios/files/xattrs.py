"""Extended attributes and ACLs as programs use them, compared with a plain directory."""

import errno
import os
import pathlib
import re
import shutil
import struct
import subprocess
import threading

import pytest

from rig import check, equal, errno_of, note, scenario
from scenarios.caching.speed import procedures
from .users import OTHER, as_user, read, write

CAPABILITY = "security.capability"
# struct vfs_cap_data of version 2: cap_net_raw=ep.
NET_RAW = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def need_xattrs(rig):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    probe = (rig.behind or rig.root) / "probe"
    probe.write_bytes(b"")
    error = errno_of(os.setxattr, probe, "user.probe", b"")
    probe.unlink()
    if error:
        pytest.skip(f"the exported file system has no user attributes ({os.strerror(error)})")


def set_value(path, name, value, flags=0):
    return errno_of(os.setxattr, path, name, value, flags, follow_symlinks=False)


def get_value(path, name):
    """The value, or the name of the error."""
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as error:
        return errno.errorcode[error.errno]


def names(path):
    return sorted(os.listxattr(path, follow_symlinks=False))


def outcomes(root):
    """Makes every kind of call on every kind of object in `root`; returns {call: outcome}."""
    found = {}
    write(root / "file")
    (root / "dir").mkdir()
    os.symlink("file", root / "link")
    os.mkfifo(root / "fifo")
    for kind in ("file", "dir", "link", "fifo"):
        path = root / kind
        for name in ("user.a", "trusted.a", "security.a", "system.a", "none.a", "a", "user.", "user." + "n" * 250,
                     "user." + "n" * 251, "user.\u00e9", CAPABILITY):
            value = NET_RAW if name == CAPABILITY else b"value"
            found[kind, name, "get none"] = get_value(path, name)
            found[kind, name, "replace none"] = set_value(path, name, value, os.XATTR_REPLACE)
            found[kind, name, "create"] = set_value(path, name, value, os.XATTR_CREATE)
            found[kind, name, "create again"] = set_value(path, name, value, os.XATTR_CREATE)
            found[kind, name, "get"] = get_value(path, name)
            found[kind, name, "replace"] = set_value(path, name, value, os.XATTR_REPLACE)
            found[kind, name, "set"] = set_value(path, name, value)
        found[kind, "list"] = names(path)
        for name in ("user.a", "trusted.a", "user.none", "none.a", "a"):
            for time in ("first", "second"):
                found[kind, name, "remove", time] = errno_of(os.removexattr, path, name, follow_symlinks=False)
        found[kind, "list after"] = names(path)
    path = root / "file"
    for size in (0, 1, 1000, 3000, 4000, 4096, 5000, 16384, 65536, 65537):
        value = bytes(number % 251 for number in range(size))
        found["size", size] = set_value(path, "user.size", value)
        found["size", size, "value"] = get_value(path, "user.size")
        found["size", size, "remove"] = errno_of(os.removexattr, path, "user.size")
    for number in range(400):  # to the limit of the file system; any error counts there
        last = set_value(path, f"user.many{number}", b"v" * 50)
        found["many", number] = last
    found["many", "list"] = names(path)
    for uid in (65534,):
        found["user", "set"] = as_user(uid, lambda: os.setxattr(path, "user.b", b"x"))
        found["user", "get"] = as_user(uid, lambda: os.getxattr(path, "user.many0"))
        found["user", "trusted"] = as_user(uid, lambda: os.setxattr(path, "trusted.b", b"x"))
        found["user", "security"] = as_user(uid, lambda: os.setxattr(path, CAPABILITY, NET_RAW))
        os.chmod(path, 0o602)
        found["user", "get unreadable"] = as_user(uid, lambda: os.getxattr(path, "user.many0"))
        found["user", "set writable"] = as_user(uid, lambda: os.setxattr(path, "user.many0", b"x"))
        found["user", "replace writable"] = as_user(
            uid, lambda: os.setxattr(path, "user.many0", b"longer", os.XATTR_REPLACE))
    return found


@scenario(timeout=120, variants=True)
def xattrs(rig):
    """Every call on every kind of object has the same outcome as on the exported file system, to its limits."""
    need_xattrs(rig)
    os.umask(0o022)
    here, there = rig.root / "here", (rig.behind or rig.root) / "there"
    here.mkdir(mode=0o755)
    there.mkdir(mode=0o755)
    found, expected = outcomes(here), outcomes(there)
    wrong = {what: (found[what], expected[what]) for what in expected if found[what] != expected[what]}
    for what, (one, other) in wrong.items():
        note(f"{what}: {one!r}, exported {other!r}")
    equal(sorted(map(str, wrong)), [], "outcomes that differ from the exported file system")
    equal(sum(1 for what, outcome in found.items() if what[0] == "many" and outcome == 0) > 10, True, "many attributes")
    _tools(rig)
    # The one difference: names that hold a slash (mount.dafs(8), DIFFERENCES).
    if rig.behind is not None:
        name = b"user.a/b"
        equal(set_value(here / "file", name, b"x"), errno.EILSEQ, f"setting {name!r}")
        equal(get_value(here / "file", name), "ENODATA", f"getting {name!r}")


def _tools(rig):
    """setfattr and getfattr change ctime only."""
    rig.need("setfattr", "getfattr", "setfacl")
    path = rig.root / "tools"
    write(path)
    for command in (["setfattr", "-n", "user.color", "-v", "red"], ["setfacl", "-m", "u:1234:r"],
                    ["setfattr", "-x", "user.color"], ["setfacl", "-b"]):
        before = os.stat(path)
        rig.run([*command, path])
        after = os.stat(path)
        check(after.st_ctime_ns > before.st_ctime_ns, f"{command[0]} left ctime as it was")
        equal(after.st_mtime_ns, before.st_mtime_ns, f"mtime after {command[0]}")
        if command[1] == "-n":
            check('user.color="red"' in rig.run(["getfattr", "-d", path]), "getfattr does not show what setfattr set")
    equal(names(path), [], "attributes at the end")


@scenario(timeout=60)
def capabilities(rig):
    """setcap and getcap; writing, truncating and giving away a file take its capabilities."""
    need_xattrs(rig)
    rig.need("setcap", "getcap")
    tool = rig.root / "tool"

    def bestow():
        rig.run(["setcap", "cap_net_raw=ep", tool])
        check("cap_net_raw=ep" in rig.run(["getcap", tool]), "getcap does not show what setcap set")

    write(tool, b"#!/bin/true\n", 0o755)
    equal(rig.run(["getcap", tool]), "", "getcap of a new file")
    for change, action in {
            "write": lambda: write(tool, b"changed"),
            "truncate": lambda: os.truncate(tool, 3),
            "chown": lambda: os.chown(tool, 1, 1),
    }.items():
        bestow()
        action()
        equal(rig.run(["getcap", tool]), "", f"getcap after {change}")
    bestow()
    rig.run(["setcap", "-r", tool])
    equal(get_value(tool, CAPABILITY), "ENODATA", "the attribute after setcap -r")
    if rig.behind is not None:  # set by another client: seen when the cache times have passed
        os.setxattr(rig.behind / "tool", CAPABILITY, NET_RAW)
        check("cap_net_raw=ep" in rig.run(["getcap", rig.behind / "tool"]), "setcap in the export")
        end = threading.Event()
        for _ in range(80):
            if get_value(tool, CAPABILITY) == NET_RAW:
                break
            end.wait(0.1)
        equal(get_value(tool, CAPABILITY), NET_RAW, "a capability set elsewhere, 8 s later")


def special_tree(root):
    """A few files with attributes and ACLs of all kinds."""
    root.mkdir()
    for number in range(3):
        path = root / f"file{number}"
        write(path, b"data\n")
        os.setxattr(path, "user.number", str(number).encode())
        os.setxattr(path, "trusted.number", str(number).encode())
    os.setxattr(root / "file0", CAPABILITY, NET_RAW)
    (root / "dir").mkdir()
    os.setxattr(root / "dir", "user.dir", b"\0\xff")
    subprocess.run(["setfacl", "-m", "u:1234:rw,g:2345:r", root / "file1"], check=True)
    subprocess.run(["setfacl", "-d", "-m", "u:1234:rwx", root / "dir"], check=True)


def extended(root):
    """{relative name: {attribute: value}} of everything below `root`."""
    found = {}
    for path in [root, *sorted(pathlib.Path(root).rglob("*"))]:
        found[str(path.relative_to(root))] = {name: get_value(path, name) for name in names(path)}
    return found


@scenario(timeout=60)
def copies(rig):
    """cp -a, rsync -aAX, tar --xattrs --acls carry attributes and ACLs onto a mount, off it and across it."""
    need_xattrs(rig)
    rig.need("cp", "rsync", "tar", "setfacl")
    plain = pathlib.Path(rig.behind or rig.root) / "plain"
    special_tree(plain)
    expected = extended(plain)
    check("system.posix_acl_access" in expected["file1"], "setfacl made no ACL")
    tools = {
        "cp": lambda source, target: rig.run(["cp", "-a", source, target]),
        "rsync": lambda source, target: rig.run(["rsync", "-aAX", f"{source}/", target]),
        "tar": lambda source, target: rig.run(
            ["sh", "-c", 'mkdir "$2" && tar -C "$1" --xattrs --xattrs-include="*" --acls -cf - . | '
             'tar -C "$2" --xattrs --xattrs-include="*" --acls -xf -', "sh", source, target]),
    }
    for tool, copy in tools.items():
        copy(plain, rig.root / f"{tool}-on")
        equal(extended(rig.root / f"{tool}-on"), expected, f"{tool} onto the mount")
        copy(rig.root / f"{tool}-on", rig.root / f"{tool}-across")
        equal(extended(rig.root / f"{tool}-across"), expected, f"{tool} on the mount")
        if rig.behind is not None:
            copy(rig.root / f"{tool}-on", rig.behind / f"{tool}-off")
            equal(extended(rig.behind / f"{tool}-off"), expected, f"{tool} off the mount")


@scenario(timeout=60, where="server")
def whole_values(rig):
    """A reader on one mount never sees a part of a value that another mount sets, while a third removes it."""
    server = rig.serve()
    root, other = rig.mount(server, "actimeo=0"), rig.base / "other"
    other.mkdir()
    rig.mount(server, "actimeo=0", point=other)
    rig.behind, rig.root = rig.export, root
    need_xattrs(rig)
    write(root / "file")
    values = [bytes([letter]) * size for letter, size in ((97, 3500), (98, 20), (99, 2900), (100, 900))]
    stop, seen, wrong = threading.Event(), set(), []

    def reader(path):
        while not stop.is_set():
            value = get_value(path, "user.value")
            if value not in (*values, "ENODATA"):
                wrong.append(value)
            seen.add(value)

    readers = [threading.Thread(target=reader, args=(point / "file",)) for point in (root, other)]
    for thread in readers:
        thread.start()
    for turn in range(400 if rig.full else 120):
        os.setxattr((root, other)[turn % 2] / "file", "user.value", values[turn % len(values)])
        if turn % 10 == 9:
            os.removexattr(root / "file", "user.value")
    stop.set()
    for thread in readers:
        thread.join()
    equal(wrong[:1], [], "a value that was never set")
    check(len(seen) > 2, f"the readers saw {len(seen)} different values only")


def acl_of(path):
    """Returns the output of getfacl, without the name."""
    done = subprocess.run(["getfacl", "-cpn", path], check=True, capture_output=True, text=True)
    return re.sub(r"\s*#effective.*", "", done.stdout).split()


@scenario(timeout=60, variants=True)
def acls(rig):
    """setfacl, getfacl, chmod, umask and default ACLs work as on the exported file system."""
    need_xattrs(rig)
    rig.need("setfacl", "getfacl")
    steps = [
        "echo data > file; chmod 640 file",
        "setfacl -m u:65534:rw,g:7777:r file",
        "chmod 600 file",
        "setfacl -m m::rw file",
        "chmod u=rwx,g=rx,o=x file",
        "setfacl -x u:65534 file",
        "setfacl -b file",
        "setfacl -m u:65534:- file; chmod g-r file",
        "mkdir dir; setfacl -d -m u:65534:rwx,g::rx,o::- dir",
        *(f"(umask {umask}; mkdir dir/{umask}; cd dir/{umask}; umask {umask}; echo x > f; mkdir d; mkfifo p; "
          "ln -s f l; install -m 755 /dev/null i; install -m 4755 /dev/null s)" for umask in ("022", "077", "000")),
        *(f"(mkdir plain{umask}; cd plain{umask}; umask {umask}; echo x > f; mkdir d; mkfifo p; mknod c c 1 3)"
          for umask in ("022", "077", "000")),
        "setfacl -k dir; (umask 027; echo x > dir/after; mkdir dir/afterd)",
        "mkdir set; chown 0:7777 set; chmod 2775 set; setfacl -d -m g::rwx set; (umask 077; echo x > set/f; mkdir set/d)",
        "setfacl -R -m u:4321:rX dir",
        "! setfacl -m x:bad file",
        "! setfacl -d -m u:1:r file",
    ]
    roots = [rig.root / "here", (rig.behind or rig.root) / "there"]
    for root in roots:
        root.mkdir(mode=0o755)
    for step in steps:
        results = []
        for root in roots:
            done = rig.run(["sh", "-ec", step], cwd=root, status=None)
            facts = {str(path.relative_to(root)): (oct(os.lstat(path).st_mode), acl_of(path))
                     for path in sorted(root.rglob("*")) if not path.is_symlink()}
            results.append((done[0], facts))
        for name in results[1][1]:
            equal(results[0][1].get(name), results[1][1][name], f"{name} after {step!r}")
        equal(results[0], results[1], f"outcome of {step!r}")
    _enforced(rig.root)


def _enforced(root):
    write(root / "shared", mode=0o600)
    equal(as_user(OTHER, lambda: read(root / "shared")), errno.EACCES, "reading without an entry")
    subprocess.run(["setfacl", "-m", f"u:{OTHER}:r", root / "shared"], check=True)
    equal(as_user(OTHER, lambda: read(root / "shared")), 0, "reading with an entry")
    equal(as_user(OTHER, lambda: write(root / "shared")), errno.EACCES, "writing with an entry to read")
    equal(as_user(65534, lambda: read(root / "shared")), errno.EACCES, "another user")
    subprocess.run(["setfacl", "-m", f"u:{OTHER}:rw,m::r", root / "shared"], check=True)
    equal(as_user(OTHER, lambda: write(root / "shared")), errno.EACCES, "writing against the mask")
    subprocess.run(["setfacl", "-m", "m::rw", root / "shared"], check=True)
    equal(as_user(OTHER, lambda: write(root / "shared")), 0, "writing with the mask")
    subprocess.run(["setfacl", "-b", "-m", "g:7777:r", root / "shared"], check=True)
    equal(as_user(65534, lambda: read(root / "shared"), [7777]), 0, "reading as a member of a named group")
    value = os.getxattr(root / "shared", "system.posix_acl_access")
    equal(as_user(65534, lambda: os.setxattr(root / "shared", "system.posix_acl_access", value)), errno.EPERM,
          "setting the ACL of another's file")


@scenario(timeout=60, where="server")
def acls_elsewhere(rig):
    """ACLs set by another client take effect when the cache times have passed."""
    server = rig.serve()
    rig.behind, rig.root = rig.export, rig.mount(server, "actimeo=1")
    need_xattrs(rig)
    rig.need("setfacl")
    os.umask(0o027)
    directory, hidden = rig.root / "dir", rig.export / "dir"
    directory.mkdir()
    os.chmod(directory, 0o755)
    write(directory / "first", mode=0o666)
    equal(oct(os.stat(directory / "first").st_mode & 0o777), oct(0o640), "a mode under the umask")
    subprocess.run(["setfacl", "-d", "-m", "o::r", hidden], check=True)
    subprocess.run(["setfacl", "-m", f"u:{OTHER}:r", hidden / "first"], check=True)
    end, modes, errors = threading.Event(), [], []
    for number in range(60):
        write(directory / str(number), mode=0o666)
        modes.append(os.stat(directory / str(number)).st_mode & 0o777)
        errors.append(as_user(OTHER, lambda: read(directory / "first")))
        if modes[-1] == 0o644 and errors[-1] == 0:
            break
        end.wait(0.1)
    equal(oct(modes[-1]), oct(0o644), "a mode under a default ACL, 6 s after it was set elsewhere")
    equal(errors[-1], 0, "reading by an ACL that was set elsewhere 6 s ago")
    subprocess.run(["setfacl", "-k", hidden], check=True)
    write(directory / "last", mode=0o666)
    equal(oct(os.stat(directory / "last").st_mode & 0o777), oct(0o640), "a mode after the default ACL was removed")


@scenario(timeout=60, where="server")
def no_acls(rig):
    """With noacl the mount has no POSIX ACLs and requests none; the server still enforces its own."""
    rig.need("setfacl")
    rig.behind = rig.export
    need_xattrs(rig)
    for name in ("first", "second", "hidden"):
        write(rig.export / name, mode=0o644)
    os.chmod(rig.export / "hidden", 0o644)
    (rig.export / "dir").mkdir()
    subprocess.run(["setfacl", "-d", "-m", "u::rwx,g::rwx,o::rwx", rig.export / "dir"], check=True)
    subprocess.run(["setfacl", "-m", f"u:{OTHER}:-", rig.export / "hidden"], check=True)
    os.setxattr(rig.export / "hidden", "user.color", b"red")
    server = rig.serve()
    for options in ("noacl", "noacl,noac"):
        rig.mount(server, options)
        marked = rig.run(["ls", "-l", rig.mnt])
        check("+" not in marked and "hidden" in marked, f"ls -l: {marked}")
        asked = procedures(rig).get("OPENATTR", 0)  # the label of the first file
        check(asked <= 1, f"{asked} questions of ls -l with {options}")
        path = rig.mnt / "hidden"
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 4, 0xffffffff) for tag in (1, 4, 0x20))
        for name in ("system.posix_acl_access", "system.posix_acl_default"):
            equal(errno_of(os.getxattr, rig.mnt / "dir", name), errno.EOPNOTSUPP, f"getting {name}")
            equal(errno_of(os.setxattr, rig.mnt / "dir", name, acl), errno.EOPNOTSUPP, f"setting {name}")
            equal(errno_of(os.removexattr, rig.mnt / "dir", name), errno.EOPNOTSUPP, f"removing {name}")
        equal(os.listxattr(path), ["user.color"], "attributes that are listed")
        equal(os.getxattr(path, "user.color"), b"red", "another attribute")
        status, _ = rig.run(["setfacl", "-m", "u:1234:r", path], status=None)
        check(status != 0, "setfacl had no error")
        equal(as_user(OTHER, lambda: read(path)), errno.EACCES, "reading what an ACL on the server forbids")
        equal(as_user(OTHER, lambda: read(rig.mnt / "first")), 0, "reading what it does not")
        before = procedures(rig).get("OPENATTR", 0)
        os.umask(0o027)
        (rig.mnt / "dir" / options).mkdir()
        os.umask(0o022)
        equal(oct(os.stat(rig.mnt / "dir" / options).st_mode & 0o777), oct(0o750), "a mode under umask and default ACL")
        equal(procedures(rig).get("OPENATTR", 0), before, f"questions of mkdir with {options}")
        rig.umount()


@scenario(timeout=60, where="mount")
def nfs4_acls(rig):
    """nfs4_getfacl and nfs4_setfacl: mapped to POSIX ACLs, refused where that cannot be."""
    rig.need("nfs4_getfacl", "nfs4_setfacl", "getfacl")
    need_xattrs(rig)
    path = rig.root / "file"
    write(path, mode=0o640)
    os.chmod(path, 0o640)

    def entries():
        return [line for line in rig.run(["nfs4_getfacl", path]).split() if line[:2] in ("A:", "D:")]

    equal(entries(), ["A::OWNER@:rwatTnNcCy", "A:g:GROUP@:rtncy", "A::EVERYONE@:tcy"], "the ACL of mode 640")
    rig.run(["nfs4_setfacl", "-a", "A::1234:rwa", path])
    equal(acl_of(path), ["user::rw-", "user:1234:rw-", "group::r--", "mask::rw-", "other::---"], "what getfacl says")
    equal(acl_of(rig.behind / "file"), acl_of(path), "what the exported file system enforces")
    equal(oct(os.stat(path).st_mode & 0o777), oct(0o660), "the mode with the mask")
    check("A::1234:rwatnNcy" in entries(), "the new entry is not listed")
    before = acl_of(path)
    for refused in ("A::1234:o", "A::1234:C", "A::OWNER@:rw", "D::EVERYONE@:t", "A:g:2345:x", "A::BATCH@:r", "U:S:EVERYONE@:r"):
        status, _ = rig.run(["nfs4_setfacl", "-a", refused, path], status=None)
        check(status != 0, f"{refused}: taken, although no POSIX ACL says it")
        equal(acl_of(path), before, f"the ACL after {refused} was refused")
    directory = rig.root / "dir"
    directory.mkdir()
    os.chmod(directory, 0o755)
    rig.run(["nfs4_setfacl", "-a", "A:fdi:OWNER@:rwaDx,A:fdi:1234:rx,A:fdi:EVERYONE@:x", directory])
    check("default:user:1234:r-x" in acl_of(directory), "inheritable entries make no default ACL")
    equal("system.nfs4_acl" in names(path), False, "system.nfs4_acl is listed, so that copies would carry it")
    equal(errno_of(os.removexattr, path, "system.nfs4_acl"), errno.EOPNOTSUPP, "removing system.nfs4_acl")
    shutil.rmtree(directory)
