"""The kernel's NFS server over RDMA, as dafsctl rpcping and the library below it see it.

The server speaks version 1 of RPC-over-RDMA only, so the negotiation must end there. Calls without and with chunks
must work.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(SOURCE / "tests" / "bench"))

import kernel_nfs  # noqa: E402

PORT = 20049
FILE_BYTES = 1 << 18


class Missing(Exception):
    """The test cannot run on this machine."""


def pattern(size):
    """The bytes of Pattern in tests/wire/rpcrdma/rig.h."""
    return bytes((index * 7 + index // 251 + 1) & 0xFF for index in range(size))


def tell_kernel(cache, line):
    """Fills a cache of the kernel's server, as rpc.mountd does on request."""
    with open(f"/proc/net/rpc/{cache}/channel", "wb", buffering=0) as channel:
        channel.write(f"{line}\n".encode())


def handle_of(export, path, address):
    """Returns the file handle that the kernel's server gives to `path`, in hexadecimal.

    The kernel makes a handle only for an export that is in its caches, and does not wait for rpc.mountd."""
    never = 0x7FFFFFFF
    insecure_port_no_subtree_check_fsid = 0x2402
    tell_kernel("auth.unix.ip", f"nfsd {address} {never} *")
    tell_kernel("nfsd.export", f"* {export} {never} {insecure_port_no_subtree_check_fsid} 65534 65534 0")
    tell_kernel("nfsd.fh", f"* 1 \\x00000000 {never} {export}")
    with open(kernel_nfs.CONTROL / "filehandle", "r+b", buffering=0) as control:
        control.write(f"* {path} 64\n".encode())
        return re.sub(r"\\x|\s", "", control.read(4096).decode())


def rpcping(programs, *words):
    done = subprocess.run([programs / "dafsctl", "rpcping", "-W", "20", *words], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    print("".join(f"    {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="", flush=True)
    return done


def check_ping(programs, address):
    report = json.loads(rpcping(programs, "--json", f"rdma:{address}", "nfs", "3").stdout)
    wanted = {"rpcrdma_version": 1, "version_2_refused": True, "server_versions": [1, 1], "served": True}
    wrong = {name: report[name] for name, value in wanted.items() if report[name] != value}
    if wrong or report["credits"] < 2 or len(report["calls_us"]) != 4:
        raise OSError(f"dafsctl rpcping reports {report}, not {wanted}")
    text = rpcping(programs, "-c", "2", f"rdma:{address}:{PORT}", "100003", "3").stdout
    if "version 1; the server refused version 2 and takes 1 to 1" not in text:
        raise OSError(f"dafsctl rpcping prints {text!r}")
    other = rpcping(programs, f"rdma:{address}", "nfs", "77")
    if other.returncode != 1 or "the server has versions 3 to 4" not in other.stderr:
        raise OSError(f"version 77: status {other.returncode}, {other.stderr!r}")
    refused = rpcping(programs, f"rdma:{address}:20050", "nfs", "3")
    if refused.returncode != 1 or "refused" not in refused.stderr:
        raise OSError(f"no server: status {refused.returncode}, {refused.stderr!r}")


def check(programs, address):
    """Raises OSError if a step fails, and Missing if a program is not installed."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="dafs-rpcping-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", base], check=True)
    try:
        (base / "file").write_bytes(pattern(FILE_BYTES))
        if why := kernel_nfs.serve(base, PORT, version_3=True):
            raise Missing(why)
        try:
            check_ping(programs, address)
            environment = {"DAFS_TEST_NFS_RDMA": f"{address}:{PORT}", "DAFS_TEST_NFS_HANDLE": handle_of(base, base / "file", address)}
            done = subprocess.run([programs / "rpcrdma_nfs_test", "--gtest_brief=1"], timeout=300, check=False,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **environment})
            if done.returncode != 0:
                raise OSError(f"rpcrdma_nfs_test ended with {done.returncode}")
        finally:
            kernel_nfs.stop(base)
    finally:
        subprocess.run(["umount", "-l", base], check=False)
