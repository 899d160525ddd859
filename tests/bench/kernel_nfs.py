"""The kernel's NFS server, for one exported directory. A machine has only one, so this is for virtual machines."""

import os
import pathlib
import shutil
import subprocess

CONTROL = pathlib.Path("/proc/fs/nfsd")


def call(*command):
    subprocess.run([str(word) for word in command], check=True, timeout=60, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)


def serve(export, rdma_port=None, version_3=False):
    """Starts the server, over TCP, and over RDMA if there is a port: version 4, and 3. Returns why it cannot run here,
    or None."""
    for program in ("exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs", *(["rpcbind"] if version_3 else [])):
        if shutil.which(program) is None:
            return f"{program} is not installed (packages nfs-kernel-server, nfs-common)"
    if not CONTROL.is_dir():
        subprocess.run(["modprobe", "-q", "-a", "nfsd", "nfs", "nfsv4", "rpcrdma"], check=False)
    if not CONTROL.is_dir():
        return "this kernel has no NFS server"
    if not (CONTROL / "threads").exists():
        call("mount", "-t", "nfsd", "nfsd", CONTROL)
    if int((CONTROL / "threads").read_text(encoding="ascii")):
        return "this machine runs an NFS server"
    pathlib.Path("/run/rpc_pipefs").mkdir(parents=True, exist_ok=True)
    call("exportfs", "-o", "rw,no_root_squash,no_subtree_check,fsid=0,insecure", f"*:{export}")
    for name in ("nfsv4leasetime", "nfsv4gracetime"):
        (CONTROL / name).write_text("10\n", encoding="ascii")
    if subprocess.run(["pidof", "rpc.mountd"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        call("rpc.mountd", "-N", "2", "-N", "3")
    if version_3 and subprocess.run(["pidof", "rpcbind"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        pathlib.Path("/run/rpcbind").mkdir(exist_ok=True)
        call("rpcbind", "-w")
    call("rpc.nfsd", *([] if version_3 else ["-N", "3"]), "-U", "4")
    (CONTROL / "v4_end_grace").write_text("Y\n", encoding="ascii")
    if rdma_port is not None:
        (CONTROL / "portlist").write_text(f"rdma {rdma_port}\n", encoding="ascii")
    return None


def stop(export):
    if os.path.exists(CONTROL / "threads") and int((CONTROL / "threads").read_text(encoding="ascii")):
        call("rpc.nfsd", "0")
        call("exportfs", "-u", f"*:{export}")
