"""Two directory trees compared entry by entry: names, types, owners, modes, sizes, times, links, contents."""

import hashlib
import os
import stat


ORPHANS = b".dafsd-orphans"  # where dafsd keeps removed files that are open; clients do not see it


def exported_names(directory):
    """The names in the root of an export that clients see."""
    return sorted(name for name in os.listdir(directory) if os.fsencode(name) != ORPHANS)


def digest(path, chunk=1 << 20):
    """SHA-256 of a file's bytes, read without following a link."""
    result = hashlib.sha256()
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        while data := os.read(descriptor, chunk):
            result.update(data)
    finally:
        os.close(descriptor)
    return result.hexdigest()


def describe(root, contents_up_to=64 << 20, times=True):
    """Returns {relative name (bytes): facts}. Files above `contents_up_to` bytes are not read."""
    root = os.fsencode(root)
    facts = {}
    inodes = {}
    stack = [b""]
    while stack:
        relative = stack.pop()
        for name in os.listdir(os.path.join(root, relative)):
            inner = os.path.join(relative, name)
            path = os.path.join(root, inner)
            if name == ORPHANS and not os.listdir(path):
                continue
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            fact = {"mode": oct(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
            if times and kind != stat.S_IFLNK:
                fact["mtime"] = status.st_mtime_ns
            if kind == stat.S_IFDIR:
                stack.append(inner)
            elif kind == stat.S_IFLNK:
                fact["target"] = os.readlink(path)
            elif kind == stat.S_IFREG:
                fact["size"] = status.st_size
                fact["links"] = status.st_nlink
                if status.st_nlink > 1:  # the same file under the same other names
                    fact["same as"] = inodes.setdefault((status.st_dev, status.st_ino), inner)
                if status.st_size <= contents_up_to:
                    fact["sha256"] = digest(path)
            elif kind in (stat.S_IFCHR, stat.S_IFBLK):
                fact["device"] = status.st_rdev
            facts[inner] = fact
    return facts


def differences(left, right, limit=10, **how):
    """Returns up to `limit` lines that name the differences of the trees `left` and `right`; [] if they are the same.

    Hard links are named after the first of them in the order of names, so the order of listing does not matter.
    """
    one, other = normal(describe(left, **how)), normal(describe(right, **how))
    lines = []
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            lines.append(f"{os.fsdecode(name)!r}: {brief(one.get(name), other.get(name))}")
            if len(lines) == limit:
                lines.append("...")
                break
    return lines


def normal(facts):
    """Renames each group of hard links after its smallest name."""
    groups = {}
    for name, fact in facts.items():
        if "same as" in fact:
            groups.setdefault(fact["same as"], []).append(name)
    for names in groups.values():
        for name in names:
            facts[name]["same as"] = min(names)
    return facts


def brief(left, right):
    if left is None or right is None:
        return "only on the right" if left is None else "only on the left"
    keys = [key for key in left.keys() | right.keys() if left.get(key) != right.get(key)]
    return ", ".join(f"{key} {left.get(key)} against {right.get(key)}" for key in sorted(keys))
