"""Mounting on demand: the kernel's autofs, driven by its own protocol as systemd and automount(8) drive it."""

import fcntl
import os
import pathlib
import select
import struct
import subprocess

import processes
from rig import Failure, Skip, check, equal, scenario

# linux/auto_fs.h: ioctls on the root of the autofs mount, with the token of the request.
READY, FAIL = 0x9360, 0x9361
# autofs_v5_packet: version, type, token, dev, ino, uid, gid, pid, tgid, len; the name follows.
PACKET = struct.Struct("=iiIIQIIIII")
MISSING_DIRECT = 5


class Autofs:
    """An autofs on one directory. Its process group is this program's: the only one that it does not hold up."""

    def __init__(self, rig, point):
        if not any(line.split()[-1] == "autofs" for line in pathlib.Path("/proc/filesystems").open(encoding="ascii")):
            raise Skip("the kernel has no autofs")
        self.point = point
        self.requests, answers = os.pipe()
        try:
            options = f"fd={answers},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
            # mount(8) would hand the descriptor on; a child of its own is told to keep it.
            done = subprocess.run(["mount", "-i", "-t", "autofs", "-o", options, "dafs-test", point],
                                  pass_fds=[answers], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=20 * rig.slowness, check=False)
        finally:
            os.close(answers)
        if done.returncode != 0:
            os.close(self.requests)
            raise Skip(f"autofs cannot be mounted: {done.stdout.decode(errors='replace').strip()}")
        self.root = os.open(point, os.O_RDONLY | os.O_DIRECTORY)

    def request(self, seconds):
        """Waits for a process that wants the directory; returns the token of the request."""
        if not select.select([self.requests], [], [], seconds)[0]:
            raise Failure(f"the kernel asked for no mount of {self.point} within {seconds} s")
        packet = os.read(self.requests, 4096)
        _version, kind, token, *_ = PACKET.unpack_from(packet)
        equal(kind, MISSING_DIRECT, "kind of the kernel's request")
        return token

    def answer(self, token, mounted):
        fcntl.ioctl(self.root, READY if mounted else FAIL, token)

    def close(self):
        os.close(self.root)
        os.close(self.requests)
        subprocess.run(["umount", "-l", self.point], stdin=subprocess.DEVNULL, check=False)


@scenario(timeout=120, where="server")
def autofs(rig):
    """A program that enters a directory of autofs gets the mount that is made for it, also the second time."""
    server = rig.serve()
    (rig.export / "file").write_text("on demand")
    demand = Autofs(rig, rig.mnt)
    try:
        for _ in range(2):
            reader = subprocess.Popen(["cat", rig.mnt / "file"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, cwd="/", start_new_session=True)
            token = demand.request(20 * rig.slowness)
            source = f"{rig.address}:{server.port}:/data"
            mounter = subprocess.Popen(rig.mount_command(source, rig.mnt), stdin=subprocess.DEVNULL, cwd="/")
            try:
                status = mounter.wait(20 * rig.slowness)
            except subprocess.TimeoutExpired:
                status = None
            demand.answer(token, status == 0)  # lets go all that wait for the directory
            text = reader.communicate(timeout=20 * rig.slowness)[0].decode(errors="replace")
            if status is None:
                mounter.kill()
                mounter.wait()
                raise Failure("mount.dafs waits for the directory that it is to be mounted on")
            equal(status, 0, "exit status of mount.dafs")
            equal(text, "on demand", "what the program read that wanted the directory")
            rig.run(["umount", rig.mnt], cwd="/")
            check(processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness), "mount.dafs runs after umount")
    finally:
        demand.close()
