"""Compares reads by libdafs, through mount.dafs and over the kernel's NFS in one guest, with their processor time.

Both servers export the same tmpfs, on the same address and device of this guest. The mounts are read with O_DIRECT,
and libdafs does not cache, so every read goes to the server, one at a time. NFS is version 4.2 with one connection,
because DAFS has one session. The program of the paper's experiment (tests/bench/bench_paper.cc) reads all of them.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import serving

MIB = 1 << 20
FILE_MIB = 64
PORT = 20149
NFS_RDMA_PORT = 20049

LEGEND = """\
  cpu, in us of each read:
    client   the program that reads, and all of mount.dafs
    threads  the kernel's threads except nfsd (kworker, siw_tx, ksoftirqd). They work for the NFS client, and for RPC
             over RDMA, siw and TCP at both ends, which cannot be separated.
    server   dafsd, or the nfsd threads
    guest    the busy time of its processors: those three, interrupts and other programs
  A client costs at least "client", and at most "client" plus "threads". One error remains: the process that happens to
  run handles arriving packets. On one machine that is often their sender, so "server" contains some of the client's
  work, and "client" some of the server's. Time that the host takes from the guest counts too: use an idle host."""


class Missing(Exception):
    """The comparison cannot run on this machine."""


def call(*command, timeout=60):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stdout.decode(errors='replace').strip()}")
    return done.stdout.decode()


def measure(label, program, target, seconds, server, daemon="none"):
    """Reads for `seconds` at each size. Prints one line for each size."""
    for title, block in {"4 KiB": 4096, "1 MiB": MIB}.items():
        text = call(program, "sync", target, block, seconds, daemon, server, "kernel:", "kernel:nfsd", "machine",
                    timeout=seconds + 60)
        result = json.loads(text[text.index("{"):])
        own, mount, serves, threads, nfsd, guest = result["cpu"]
        took = block / result["mbs"]
        print(f"  {label:<14} {title}: {1e6 / took:7.0f} reads/s  {took:8.1f} us/read  cpu: client {own + mount:7.1f}  "
              f"threads {threads - nfsd:7.1f}  server {serves:7.1f}  guest {guest:7.1f}", flush=True)


@contextlib.contextmanager
def mounted(point, *command):
    """Mounts `point` for the body, and always unmounts it."""
    call("mount", *command, point)
    try:
        yield
    finally:
        call("umount", "-l", point)


def over_dafs(programs, address, export, seconds):
    with serving.served(programs, [f"rdma:{address}:{PORT}"], export) as (_, server):
        measure("libdafs siw", programs / "dafs_paper_dafs", f"rdma:{address}:{PORT}/x", seconds, server.pid)
        with serving.mounted(programs, f"{address}:{PORT}:/x", "proto=rdma") as (mount, client):
            call("cmp", mount / "file", export / "file", timeout=120)
            measure("mount.dafs siw", programs / "dafs_paper_posix", mount, seconds, server.pid, client.pid)


def serve_nfs(export):
    """Starts the kernel's NFS server for `export`, over TCP and RDMA."""
    if not os.path.isdir("/proc/fs/nfsd"):
        subprocess.run(["modprobe", "-a", "nfsd", "nfs", "nfsv4", "rpcrdma"], check=False)
    if not os.path.isdir("/proc/fs/nfsd"):
        raise Missing("this kernel has no NFS server")
    call("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    pathlib.Path("/run/rpc_pipefs").mkdir(parents=True, exist_ok=True)
    call("exportfs", "-o", "rw,no_root_squash,no_subtree_check,fsid=0,insecure", f"*:{export}")
    for name in ("nfsv4leasetime", "nfsv4gracetime"):
        pathlib.Path("/proc/fs/nfsd", name).write_text("10\n", encoding="ascii")
    call("rpc.mountd", "-N", "2", "-N", "3")
    call("rpc.nfsd", "-N", "3", "-U", "4")
    pathlib.Path("/proc/fs/nfsd/v4_end_grace").write_text("Y\n", encoding="ascii")
    pathlib.Path("/proc/fs/nfsd/portlist").write_text(f"rdma {NFS_RDMA_PORT}\n", encoding="ascii")


def over_nfs(programs, address, mount, seconds):
    for label, options in {"NFS siw": f"proto=rdma,port={NFS_RDMA_PORT}", "NFS tcp": "proto=tcp"}.items():
        with mounted(mount, "-t", "nfs", "-o", f"vers=4.2,nconnect=1,{options}", f"{address}:/"):
            measure(label, programs / "dafs_paper_posix", mount, seconds, "kernel:nfsd")


def compare(programs, address, seconds):
    """Prints the figures. Raises OSError if a step fails, and Missing if a program is not installed."""
    for program in ("exportfs", "rpc.nfsd", "mount.nfs"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed (packages nfs-kernel-server, nfs-common)")
    for program in ("dafs_paper_dafs", "dafs_paper_posix"):
        if not (programs / program).exists():
            raise Missing(f"{program} is not built")
    base = pathlib.Path(tempfile.mkdtemp(prefix="dafs-beside-"))
    export, mount = base / "export", base / "mnt"
    export.mkdir()
    mount.mkdir()
    print(LEGEND)
    with mounted(export, "-t", "tmpfs", "-o", "size=256m", "tmpfs"):
        (export / "file").write_bytes(os.urandom(FILE_MIB * MIB))
        over_dafs(programs, address, export, seconds)
        serve_nfs(export)
        over_nfs(programs, address, mount, seconds)
        call("rpc.nfsd", "0")
