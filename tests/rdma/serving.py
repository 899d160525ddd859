"""A dafsd and a mount of it for one step. Both end with the step, also if it fails."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time


def wait_for(what, done, seconds=60):
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise OSError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise OSError(f"{process.args[0]} did not end within 20 s of SIGTERM") from None


@contextlib.contextmanager
def served(programs, listen, export=None):
    """Runs a dafsd that listens at each of `listen` and exports a directory as /x. Yields directory and process."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="dafs-rdma-"))
    (base / "state").mkdir()
    log = base / "dafsd.log"
    with contextlib.ExitStack() as stack:
        if export is None:
            export = base / "export"
            export.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", export], check=True)
            stack.callback(subprocess.run, ["umount", "-l", export], check=False)
        command = [programs / "dafsd", "--foreground", "--state-dir", base / "state", "--export",
                   f"/x={export},rw,no_root_squash"]
        for at in listen:
            command += ["--listen", at]
        with open(log, "wb") as output:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        stack.callback(end, server)
        wait_for(f"dafsd: {log}", lambda: log.read_bytes().count(b" exports on ") == len(listen))
        yield export, server


@contextlib.contextmanager
def mounted(programs, source, options):
    """Runs a mount in the foreground. Yields its directory and the process."""
    point = pathlib.Path(tempfile.mkdtemp(prefix="dafs-rdma-mnt-"))
    client = subprocess.Popen([programs / "mount.dafs", source, point, "-f", "-o", options], stdin=subprocess.DEVNULL)
    try:
        wait_for("mount.dafs", lambda: os.path.ismount(point) or client.poll() is not None)
        if not os.path.ismount(point):
            raise OSError(f"mount.dafs ended with {client.returncode}")
        yield point, client
    finally:
        if os.path.ismount(point):
            subprocess.run(["umount", "-l", point], check=False)
        end(client)
