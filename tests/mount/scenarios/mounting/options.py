"""Mount options that the kernel or mount.dafs must keep: ro, nosuid, nodev, noexec, -f, and the common ones."""

import errno
import os
import shutil
import stat
import subprocess

import processes
from rig import check, equal, errno_of, scenario
from scenarios.files.users import NOBODY, as_user
from .mounting import entry


@scenario(timeout=60, where="server")
def flags(rig):
    """ro, nosuid, nodev and noexec forbid the calls that they should; without them the calls work."""
    shutil.copy("/usr/bin/id", rig.export / "id")
    os.chmod(rig.export / "id", 0o4755)
    os.mknod(rig.export / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod(rig.export / "null", 0o666)
    server = rig.serve()
    tool, device = rig.mnt / "id", rig.mnt / "null"

    rig.mount(server)
    shown = set(entry(rig.mnt)[3].split(","))
    check(not shown & {"nosuid", "nodev", "noexec", "ro"}, f"flags that no option set: {shown}")
    equal(rig.run([tool, "-u"], user=NOBODY).strip(), "0", "user of a setuid program")
    equal(errno_of(device.read_bytes), 0, "a device")
    rig.umount()

    rig.mount(server, "nosuid,nodev")
    check({"nosuid", "nodev"} <= set(entry(rig.mnt)[3].split(",")), "nosuid,nodev are not in /proc/mounts")
    equal(rig.run([tool, "-u"], user=NOBODY).strip(), str(NOBODY), "user of a setuid program under nosuid")
    equal(errno_of(device.read_bytes), errno.EACCES, "a device under nodev")
    rig.umount()

    rig.mount(server, "noexec")
    equal(as_user(NOBODY, lambda: os.execv(tool, ["id"])), errno.EACCES, "a program under noexec")
    rig.umount()

    rig.mount(server, "ro")
    equal(errno_of(os.mkdir, rig.mnt / "d"), errno.EROFS, "mkdir under ro")
    equal(errno_of(os.open, tool, os.O_WRONLY), errno.EROFS, "open to write under ro")
    equal(rig.run([tool, "-u"]).strip(), "0", "a program under ro")
    rig.umount()


@scenario(timeout=120, where="server")
def accepted(rig):
    """Options of every kind mount, alone and all together."""
    server = rig.serve()
    (rig.export / "file").write_text("x" * 100_000)
    proto = f"proto={rig.server_proto}"
    every = ["rw", proto, "proto=auto", "nconnect=2", "rsize=65536", "wsize=65536", "hard", "soft",
             "timeo=300", "actimeo=5", "noac", "byteorder=big", "byteorder=little", "byteorder=host", "allow_other", "default_permissions", "_netdev", "nofail", "noauto",
             "x-systemd.automount", "x-anything=1", "noatime", "nodiratime", "sync",
             "spin=0", "spin=200", "fence_id=node1", "id_domain=example.com", "failover_after=3", "persist_locks", "rdma_read_channel", "io_uring=auto", "io_uring=off"]
    together = f"rw,{proto},nconnect=2,rsize=65536,wsize=65536,hard,timeo=300,actimeo=5,_netdev,nofail,x-a"
    for options in every + [together]:
        rig.mount(server, options)
        equal((rig.mnt / "file").read_text(), "x" * 100_000, f"a file under {options}")
        (rig.mnt / "out").write_text(options)
        equal((rig.export / "out").read_text(), options, f"what was written under {options}")
        rig.umount()


@scenario(timeout=60, where="server", loopback=True)
def foreground(rig):
    """mount.dafs -f stays until the umount and ends with status 0; SIGTERM unmounts."""
    server = rig.serve()
    for how in ("umount", "SIGTERM"):
        command = rig.mount_command(f"127.0.0.1:{server.port}:/data", rig.mnt) + ["-f"]
        with open(rig.logs / "foreground.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        check(processes.wait_until(lambda: os.path.ismount(rig.mnt) or process.poll() is not None, 10 * rig.slowness)
              and process.poll() is None, "mount.dafs -f does not mount")
        (rig.mnt / how).write_text(how)
        if how == "umount":
            rig.run(["umount", rig.mnt], cwd="/")
        else:
            process.terminate()
        equal(process.wait(10 * rig.slowness), 0, f"exit status after {how}")
        check(not os.path.ismount(rig.mnt), f"still mounted after {how}")
        equal((rig.export / how).read_text(), how, "what was written")
