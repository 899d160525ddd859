"""Compares libdafs, mount.dafs and the kernel's NFS in one guest: reads, with their processor time, and calls on names.

Both servers export the same tmpfs, on the same address and device of this guest. The mounts are read with O_DIRECT,
and libdafs does not cache, so every read goes to the server, one at a time. NFS is version 4.2 with one connection,
because DAFS has one session. The program of the paper's experiment (tests/bench/bench_paper.cc) reads all of them.

Calls on names are measured by scripts/bench: mount.dafs and NFS over TCP, and the FUSE pass-through, which has no
server, each with its default options.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import serving

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(SOURCE / "tests" / "bench"))

import kernel_nfs  # noqa: E402

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

# Rows of scripts/bench, nothing pinned.
NAMES = ("create-free", "open-free", "missing-free", "rename-free", "unlink-free", "mkdir-free", "ls-free", "untar",
         "remove")


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


def over_nfs(programs, address, mount, seconds):
    for label, options in {"NFS siw": f"proto=rdma,port={NFS_RDMA_PORT}", "NFS tcp": "proto=tcp"}.items():
        with mounted(mount, "-t", "nfs", "-o", f"vers=4.2,nconnect=1,{options}", f"{address}:/"):
            measure(label, programs / "dafs_paper_posix", mount, seconds, "kernel:nfsd")


def compare_reads(programs, address, seconds):
    base = pathlib.Path(tempfile.mkdtemp(prefix="dafs-beside-"))
    export, mount = base / "export", base / "mnt"
    export.mkdir()
    mount.mkdir()
    print(LEGEND)
    with mounted(export, "-t", "tmpfs", "-o", "size=256m", "tmpfs"):
        (export / "file").write_bytes(os.urandom(FILE_MIB * MIB))
        over_dafs(programs, address, export, seconds)
        if why := kernel_nfs.serve(export, NFS_RDMA_PORT):
            raise Missing(why)
        try:
            over_nfs(programs, address, mount, seconds)
        finally:
            kernel_nfs.stop(export)


def compare_names(programs, rounds, scale):
    """Prints one table: for each row the figure of each system, and the time of mount.dafs divided by that of it."""
    with tempfile.NamedTemporaryFile("r") as result:
        subprocess.run([SOURCE / "scripts" / "bench", "--bin", programs, "--peer", "nfs", "--rounds", str(rounds),
                        "--scale", str(scale), "--json", result.name, *NAMES],
                       check=True, timeout=3000, stdin=subprocess.DEVNULL)
        rows = json.load(result)["rows"]
    systems = ("dafs", "nfs", "passthrough")
    title = f"over TCP, small files * {scale}"
    print(f"  {title:<27}{'mount.dafs':>20}{'NFS 4.2, ratio':>27}{'pass-through, ratio':>27}")
    for row in rows:
        if missing := set(systems) - set(row["results"]):
            raise Missing(f"scripts/bench left out {missing}")
        cells = [f"{row['results'][name]['figure']['median']:,.1f} {row['unit']}".rjust(20) for name in systems]
        ratios = [f"{row['ratios'][name]:.2f}".rjust(7) for name in systems[1:]]
        print(f"  {row['row'].removesuffix('-free'):<27}{cells[0]}{cells[1]}{ratios[0]}{cells[2]}{ratios[1]}", flush=True)


def compare(programs, address, seconds):
    """Prints the figures. Raises OSError if a step fails, and Missing if a program is not installed."""
    for program in ("dafs_paper_dafs", "dafs_paper_posix", "dafs_bench_probe", "dafs_passthrough"):
        if not (programs / program).exists():
            raise Missing(f"{program} is not built")
    compare_reads(programs, address, seconds)
    compare_names(programs, *((3, 0.5) if seconds > 4 else (2, 0.1)))
