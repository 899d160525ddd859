"""Btrfs subvolumes and layers of an overlay: one mount of the server, several devices to stat(2)."""

import contextlib
import os
import subprocess

import pytest

from rig import check, equal, errno_of, scenario

LISTS = """import os, sys
for entry in os.scandir(sys.argv[1]):
    if entry.inode() != os.lstat(entry.path).st_ino:
        print(entry.path)
"""


@contextlib.contextmanager
def overlay(rig):
    """A directory of an overlay whose two layers lie on two file systems. It is removed at the end of the block."""
    rig.need("mkfs.ext4")
    lower, upper, point = rig.base / "lower", rig.base / "upper", rig.base / "overlay"
    made = []
    try:
        for layer in (lower, upper):
            layer.mkdir()
            image = rig.base / f"{layer.name}.image"
            with open(image, "wb") as file:
                file.truncate(16 << 20)
            rig.run(["mkfs.ext4", "-q", image], cwd="/")
            if subprocess.run(["mount", "-o", "loop", image, layer], check=False).returncode != 0:
                pytest.skip("needs ext4 and loop devices")
            made.append(layer)
        for directory in (lower / "files", upper / "files", upper / "work", point):
            directory.mkdir()
        for number in range(8):
            (lower / "files" / f"lower{number}").write_text(f"lower{number}")
        options = (f"lowerdir={lower}/files,upperdir={upper}/files,workdir={upper}/work,index=on,nfs_export=on,"
                   "xino=off")
        if subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", point], check=False).returncode != 0:
            pytest.skip("no overlay with these options")
        made.append(point)
        for number in range(8):
            (point / f"upper{number}").write_text(f"upper{number}")
        yield point
    finally:
        for layer in reversed(made):
            subprocess.run(["umount", "-l", layer], check=False)


@scenario(timeout=60, where="server")
def layers(rig):
    """Files of two layers of an overlay with one number are two files, also in a listing."""
    with overlay(rig) as point:
        server = rig.serve([f"/data={point},no_root_squash"])
        mnt = rig.mount(server)
        names = sorted(os.listdir(mnt))
        equal(len(names), 16, "files")
        behind = [os.stat(point / name).st_ino for name in names]
        check(len(set(behind)) < 16, "no two files have one number on the server: the test shows nothing")
        equal(len({os.stat(mnt / name).st_ino for name in names}), 16, "distinct inode numbers")
        equal(rig.run(["python3", "-c", LISTS, mnt], cwd=rig.base), "", "entries whose d_ino is not st_ino")
        rig.umount()
        server.stop()


@contextlib.contextmanager
def btrfs(rig):
    """An empty Btrfs file system on a loop device. It is removed at the end of the block."""
    rig.need("mkfs.btrfs", "btrfs")
    image, point = rig.base / "image", rig.base / "btrfs"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(256 << 20)
    rig.run(["mkfs.btrfs", "-q", image], cwd="/")
    if subprocess.run(["mount", "-o", "loop", image, point], check=False).returncode != 0:
        pytest.skip("needs Btrfs and loop devices")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=False)


@scenario(timeout=120, where="server")
def subvolumes(rig):
    """Files of two subvolumes with one number are two files: tar, cp -a, rsync -aH, find, du and d_ino."""
    rig.need("rsync", "tar", "find")
    with btrfs(rig) as point:
        exported = point / "exp"
        exported.mkdir()
        for name in ("s1", "s2", "s1/inner"):
            rig.run(["btrfs", "subvolume", "create", exported / name], cwd="/")
        for name in ("s1", "s2", "s1/inner"):
            (exported / name / "f").write_text(name)
            os.link(exported / name / "f", exported / name / "l")
        rig.run(["btrfs", "subvolume", "snapshot", exported / "s1", exported / "snap"], cwd="/")
        server = rig.serve([f"/data={exported},no_root_squash"])
        mnt = rig.mount(server)
        names = ("s1", "s2", "s1/inner", "snap")
        content = {"s1": "s1", "s2": "s2", "s1/inner": "s1/inner", "snap": "s1"}
        numbers = [os.stat(mnt / name / "f").st_ino for name in names]
        numbers += [os.stat(mnt / name).st_ino for name in ("", *names)]
        equal(len(set(numbers)), len(numbers), "distinct inode numbers")
        equal(rig.run(["find", mnt, "-name", "loop"], merge=True), "", "what find says")
        for name, copy in (("tar", f"mkdir t1; tar -C {mnt} -cf - . | tar -C t1 -xf -"),
                           ("cp -a", f"cp -a {mnt} t2"), ("rsync -aH", f"rsync -aH {mnt}/ t3/")):
            rig.run(["sh", "-ec", copy], cwd=rig.base)
            copied = rig.base / {"tar": "t1", "cp -a": "t2", "rsync -aH": "t3"}[name]
            for sub in names:
                equal((copied / sub / "f").read_text(), content[sub], f"{sub}/f copied by {name}")
                check(os.path.samefile(copied / sub / "f", copied / sub / "l"), f"{name} keeps hard links of {sub}")
                equal(os.stat(copied / sub / "f").st_nlink, 2, f"links of {sub}/f copied by {name}")
        equal(rig.run(["python3", "-c", LISTS, mnt], cwd=rig.base), "", "entries whose d_ino is not st_ino")
        check(errno_of(os.link, mnt / "s1" / "f", mnt / "s2" / "g") == 18, "a link between subvolumes is EXDEV")
        equal(os.path.realpath(mnt / "s1" / "inner" / ".." / ".."), str(mnt), "the parent of s1")
        os.rename(mnt / "s2", mnt / "s1" / "moved")
        equal((mnt / "s1" / "moved" / "f").read_text(), "s2", "a subvolume that was renamed")
        with open(mnt / "s1" / "f", encoding="ascii") as held:
            before = os.fstat(held.fileno()).st_ino
            os.unlink(mnt / "s1" / "l")
            os.unlink(mnt / "s1" / "f")
            server.stop()
            server.start()
            equal(held.read(), "s1", "a removed open file after a restart of the server")
            equal(os.fstat(held.fileno()).st_ino, before, "its number")
        rig.umount()
        server.stop()
