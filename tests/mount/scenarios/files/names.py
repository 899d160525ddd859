"""Names: every byte that UTF-8 allows, every byte that it does not allow, the longest, the oddest."""

import errno
import os
import signal

from rig import check, equal, errno_of, scenario
from tree import exported_names


def utf8_names():
    """Names that together hold every byte value that can occur in a UTF-8 name (all but NUL and '/')."""
    names = [bytes([value]) for value in range(1, 128) if value not in b"/."]
    points = [(lead & 0x1F) << 6 | tail for lead in range(0xC2, 0xE0) for tail in (0, 21, 63)]
    points += [0x80 + tail for tail in range(64)]  # every continuation byte
    points += [max(lead << 12, 0x800) + extra for lead in range(16) for extra in (0, 0x7FF)]
    points += [point for lead in range(5) for point in (max(lead << 18, 0x10000), min((lead << 18) + 0x3FFFF, 0x10FFFF))
               if point >= 0x10000]
    names += [chr(point).encode() for point in points if not 0xD800 <= point < 0xE000]
    names += [b"...", b" ", b" lead", b"trail ", b"-rf", b"*", b"new\nline", "Grüße/日本語".replace("/", "_").encode()]
    return sorted(set(names))


@scenario(timeout=60, variants=True)
def names(rig):
    """Every byte value a UTF-8 name can hold: created, listed, read, renamed, linked, removed."""
    where = os.fsencode(rig.root / "names")
    os.mkdir(where)
    wanted = utf8_names()
    covered = set(b"".join(wanted))
    never = {0, ord("/"), 0xC0, 0xC1} | set(range(0xF5, 0x100))
    equal(set(range(256)) - covered, never, "bytes that no name holds")
    for name in wanted:
        with open(where + b"/" + name, "xb") as file:
            file.write(name)
    equal(sorted(os.listdir(where)), wanted, "names listed")
    if rig.behind is not None:
        equal(sorted(os.listdir(os.fsencode(rig.behind / "names"))), wanted, "names in the export")
    for name in wanted:
        with open(where + b"/" + name, "rb") as file:
            equal(file.read(), name, f"contents of {name!r}")
    for name in wanted[::3]:
        os.rename(where + b"/" + name, where + b"/" + name + b"~moved")
        os.symlink(name, where + b"/" + name)
        equal(os.readlink(where + b"/" + name), name, f"link to {name!r}")
    for name in os.listdir(where):
        os.unlink(where + b"/" + name)
    equal(os.listdir(where), [], "what is left")
    _lengths(where)


# Latin-1, overlong, a surrogate, beyond Unicode, cut off, the longest, and every byte that UTF-8 never has.
NOT_UTF8 = [b"caf\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"n" * 254 + b"\x80",
            bytes(range(0xF5, 0x100)) + b"\xc0\xc1"]


@scenario(timeout=60, where="server")
def byte_names(rig):
    """Names that are not UTF-8 work like any other, made here or on the server, before and after a reconnect."""
    rig.expect("session to|lost|connect")
    server = rig.serve()
    here, behind = os.fsencode(rig.mount(server)), os.fsencode(rig.export)
    for restarted in (False, True):
        if restarted:
            server.stop(signal.SIGKILL)
            server.start()
        for name in NOT_UTF8:
            _use_name(here, behind, name)
        os.makedirs(behind + b"/tree/d\xff/e\xfe")
        for name in NOT_UTF8:
            with open(behind + b"/tree/d\xff/e\xfe/" + name, "xb"):
                pass
        rig.run(["rm", "-rf", os.fsdecode(here + b"/tree")])
        equal(exported_names(behind), [], "what rm -rf has left")
    _attribute_names(here, behind)


def _use_name(here, behind, name):
    path, moved = here + b"/" + name, here + b"/" + name[:200] + b"\xfe"
    equal(errno_of(os.stat, path), errno.ENOENT, f"stat of absent {name!r}")
    equal(errno_of(os.unlink, path), errno.ENOENT, f"unlink of absent {name!r}")
    equal(errno_of(os.rename, path, moved), errno.ENOENT, f"rename of absent {name!r}")
    with open(path, "xb") as file:
        file.write(name)
    with open(behind + b"/" + name, "rb") as file:
        equal(file.read(), name, f"{name!r} on the server")
    equal(os.listdir(here), [name], "names listed")
    os.rename(path, moved)
    os.link(moved, path)
    equal(os.stat(path).st_nlink, 2, f"links of {name!r}")
    os.unlink(moved)
    os.symlink(name, moved)
    equal(os.readlink(moved), name, f"link to {name!r}")
    with open(moved, "rb") as file:
        equal(file.read(), name, f"contents of {name!r} through a link")
    os.unlink(moved)
    os.unlink(path)
    os.mkdir(path)
    os.rmdir(path)
    os.mkfifo(path)
    os.unlink(path)
    with open(behind + b"/" + name, "xb"):
        pass
    os.unlink(path)
    equal(exported_names(behind), [], f"what is left of {name!r}")


def _attribute_names(here, behind):
    with open(here + b"/file", "xb"):
        pass
    if errno_of(os.setxattr, behind + b"/file", "user.probe", b"") == errno.EOPNOTSUPP:
        return
    os.removexattr(behind + b"/file", "user.probe")
    os.setxattr(here + b"/file", b"user.\xff", b"value")
    equal(os.getxattr(behind + b"/file", b"user.\xff"), b"value", "an attribute on the server")
    equal(os.getxattr(here + b"/file", b"user.\xff"), b"value", "an attribute")
    equal(os.listxattr(here + b"/file"), [os.fsdecode(b"user.\xff")], "attributes listed")
    os.removexattr(here + b"/file", b"user.\xff")
    equal(os.listxattr(behind + b"/file"), [], "attributes that are left")


def _lengths(where):
    longest = b"n" * 255
    os.mkdir(where + b"/" + longest)
    equal(os.listdir(where), [longest], "name of 255 bytes")
    equal(errno_of(os.mkdir, where + b"/" + b"n" * 256), errno.ENAMETOOLONG, "name of 256 bytes")
    wide = "日".encode() * 85
    os.mkdir(where + b"/" + wide)
    check(wide in os.listdir(where), "name of 85 wide characters")
    path = where
    while len(path) < 3500:
        path += b"/" + b"d" * 200
        os.mkdir(path)
    with open(path + b"/deep", "xb"):
        pass
    equal(os.listdir(path), [b"deep"], "a path of 3,500 bytes")
