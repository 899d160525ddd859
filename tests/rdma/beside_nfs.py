"""Reads over DAFS and over the kernel's NFS, side by side in one guest, with the processor time of each operation.

Both servers export a tmpfs of their own on the same address and device; the client opens the file with O_DIRECT, so
that every read goes to the server. NFS is version 4.2 with one connection, as DAFS has one session.
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


class Missing(Exception):
    """The comparison cannot be made here."""


def call(*command, timeout=60):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stdout.decode(errors='replace').strip()}")
    return done.stdout.decode()


def ticks(path, first, count):
    """The sum of `count` fields of a stat file in /proc, from field `first` on, in seconds."""
    fields = pathlib.Path(path).read_text(encoding="ascii").rsplit(")", 1)[-1].split()
    return sum(map(int, fields[first:first + count])) / os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Processor time that this machine has not idled away, of all processors."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def measure(label, mount, seconds, daemon=None):
    """Reads for `seconds` at each size and prints a line for each."""
    for title, words in {"4 KiB": ["--rw=randread", "--bs=4k"], "1 MiB": ["--rw=read", "--bs=1m"]}.items():
        own = lambda: ticks(f"/proc/{daemon}/stat", 11, 2) if daemon else 0.0  # noqa: E731  (utime, stime)
        machine, before = busy_seconds(), own()
        text = call("fio", "--name=x", f"--filename={mount}/f", f"--size={FILE_MIB}m", "--direct=1", "--ioengine=psync",
                    "--time_based", f"--runtime={seconds}", "--output-format=json", *words, timeout=seconds + 60)
        job = json.loads(text[text.index("{"):])["jobs"][0]
        count, took = job["read"]["total_ios"], job["read"]["runtime"] / 1000
        client = took * (job["usr_cpu"] + job["sys_cpu"]) / 100 + own() - before
        print(f"  {label:<10} {title}: {count / took:8.0f} reads/s  {count / took * job_bytes(title) / MIB:7.0f} MiB/s  "
              f"mean {job['read']['clat_ns']['mean'] / 1000:8.1f} us  client {client / count * 1e6:7.1f} us/read  "
              f"guest {(busy_seconds() - machine) / count * 1e6:7.1f} us/read", flush=True)


def job_bytes(title):
    return 4096 if title == "4 KiB" else MIB


@contextlib.contextmanager
def mounted(point, *command):
    """`point` is mounted inside; always unmounted after."""
    call("mount", *command, point)
    try:
        yield
    finally:
        call("umount", "-l", point)


def over_dafs(programs, address, export, seconds):
    with serving.served(programs, [f"rdma:{address}:{PORT}"], export):
        with serving.mounted(programs, f"{address}:{PORT}:/x", "proto=rdma") as (mount, client):
            call("cmp", mount / "f", export / "f", timeout=120)
            measure("DAFS siw", mount, seconds, client.pid)


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


def over_nfs(address, mount, seconds):
    for label, options in {"NFS siw": f"proto=rdma,port={NFS_RDMA_PORT}", "NFS tcp": "proto=tcp"}.items():
        with mounted(mount, "-t", "nfs", "-o", f"vers=4.2,nconnect=1,{options}", f"{address}:/"):
            measure(label, mount, seconds)


def compare(programs, address, seconds):
    """Prints the figures; raises OSError where something does not work, Missing where it is not there."""
    for program in ("fio", "exportfs", "rpc.nfsd", "mount.nfs"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed (packages fio, nfs-kernel-server, nfs-common)")
    base = pathlib.Path(tempfile.mkdtemp(prefix="dafs-beside-"))
    export, mount = base / "export", base / "mnt"
    export.mkdir()
    mount.mkdir()
    with mounted(export, "-t", "tmpfs", "-o", "size=256m", "tmpfs"):
        (export / "f").write_bytes(os.urandom(FILE_MIB * MIB))
        over_dafs(programs, address, export, seconds)
        serve_nfs(export)
        over_nfs(address, mount, seconds)
        call("rpc.nfsd", "0")
