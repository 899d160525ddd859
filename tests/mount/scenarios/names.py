"""Names: every byte that UTF-8 allows, the longest, the oddest."""

import errno
import os

from rig import check, equal, errno_of, scenario


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
        equal(sorted(os.listdir(os.fsencode(rig.behind / "names"))), wanted, "names behind the mount")
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
    if rig.behind is not None:
        refused = errno_of(os.mkdir, where + b"/\xff\xfe")
        check(refused in (errno.EILSEQ, errno.EINVAL), f"a name that is not UTF-8: errno {refused}")


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
