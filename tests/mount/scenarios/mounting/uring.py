"""Requests by io_uring instead of /dev/fuse: the conditions for it, the data that passes, and calls that wait long."""

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import time

import pytest

import processes
import uring
from rig import ENDS_WITHIN, check, equal, errno_of, scenario


@contextlib.contextmanager
def _parameter(value):
    with uring.parameter(value) as reason:
        if reason:
            pytest.skip(reason)
        yield


def _said(rig):
    """Returns the transport that the log states for each mount so far."""
    log = rig.logs / "mount.dafs.log"
    return re.findall("requests by (.*)", log.read_text()) if log.exists() else []


def _requests_by(rig, mounts):
    """Returns the transport that both log and dafsctl state for the mount, which is number `mounts` of this log."""
    # The log line follows shortly after the mount.
    check(processes.wait_until(lambda: len(_said(rig)) == mounts, 10 * rig.slowness), "the log does not name the mount")
    said = _said(rig)[-1]
    status = rig.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], cwd="/")
    equal(json.loads(status)["requests_by"], said, "requests_by of dafsctl")
    check(f"  requests by {said}\n" in rig.run([rig.bin / "dafsctl", "status", rig.mnt], cwd="/"), "dafsctl status")
    return said


@scenario(timeout=60, where="server", alone=True)
def uring_choice(rig):
    """Requests use io_uring if the kernel offers it and an option allows it; log and dafsctl show it, or why not."""
    server = rig.serve()

    def choice(options):
        mounts = len(_said(rig)) + 1
        rig.mount(server, options, flags=["-v"])
        said = _requests_by(rig, mounts)
        rig.umount()
        return said

    with _parameter("Y"):
        equal(choice("io_uring=on"), "io_uring", "io_uring=on")
        equal(choice("io_uring=auto,nconnect=5"), "io_uring", "io_uring=auto, more sessions than CPUs")
        equal(choice("io_uring=off"), "/dev/fuse (io_uring=off)", "io_uring=off")
        check("wsize" in choice("io_uring=auto,wsize=65536"), "no reason for /dev/fuse with a small wsize")
    with _parameter("N"):
        check(uring.PARAMETER in choice("io_uring=auto"), "no reason for /dev/fuse without the kernel's offer")
        refused = rig.mount_command(f"{rig.address}:{server.port}:/data", rig.mnt, "io_uring=on")
        text = rig.run(refused, cwd="/", status=2)
        check(uring.PARAMETER in text and not os.path.ismount(rig.mnt), f"io_uring=on was not refused: {text}")


@scenario(timeout=120, where="server", alone=True)
def uring_requests(rig):
    """The largest requests and replies pass through an io_uring whole: data, names, values, listings."""
    server = rig.serve()
    with _parameter("Y"):
        rig.mount(server, "io_uring=on,noac")
        rig.root, rig.behind = rig.mnt, rig.export
        for size in (0, 1, 4095, 4096, 4097, 1 << 20, (3 << 20) + 5):
            data = os.urandom(size)
            (rig.mnt / "f").write_bytes(data)
            equal((rig.export / "f").read_bytes() == data, True, f"what was written of {size} bytes")
            with open(rig.mnt / "f", "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                equal(b"".join(iter(lambda file=file: file.read(1 << 20), b"")) == data, True, f"{size} bytes read")
        value = os.urandom(65536)
        while errno_of(os.setxattr, rig.mnt / "f", "user.value", value) == errno.ENOSPC:  # ext4: not beyond a block
            value = value[:len(value) // 2]
        equal(os.getxattr(rig.mnt / "f", "user.value") == value, True, "an extended attribute")
        target = "t" * 4000
        os.symlink(target, rig.mnt / "link")
        equal(os.readlink(rig.mnt / "link"), target, "the target of a link")
        names = sorted(f"{number:04}" + "n" * 200 for number in range(120))
        (rig.export / "d").mkdir()
        for name in names:
            (rig.export / "d" / name).touch()
        equal(sorted(os.listdir(rig.mnt / "d")), names, "a listing")
        os.rename(rig.mnt / "d" / names[0], rig.mnt / "d" / ("m" * 255))
        equal((rig.export / "d" / ("m" * 255)).exists(), True, "a renamed file")
        with open(rig.mnt / "log", "ab") as log:
            log.write(b"one")
        equal((rig.export / "log").read_bytes(), b"one", "what was appended")


def _wait_for_lock(path, ready=None, go=None):
    """Forks a process that takes a lock on `path`, releases it and ends. With pipes it first writes to `ready` and
    waits for the end of `go`. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with open(path, "r+b") as file:
                if go is not None:
                    os.close(go[1])
                    os.write(ready[1], b".")
                    os.read(go[0], 1)
                fcntl.lockf(file, fcntl.LOCK_EX)
                fcntl.lockf(file, fcntl.LOCK_UN)
            status = 0
        finally:
            os._exit(status)
    return pid


@scenario(timeout=120, where="server", alone=True)
def uring_waits(rig):
    """More processes wait for a lock on one CPU than its queue has entries: after its release each of them gets it."""
    server = rig.serve()
    cpus = os.sched_getaffinity(0)
    with _parameter("Y"):
        rig.mount(server, "io_uring=on")
        path = rig.mnt / "f"
        path.write_bytes(b"x")
        os.sched_setaffinity(0, {min(cpus)})
        ready, go = os.pipe(), os.pipe()
        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            waiting = {_wait_for_lock(path, ready, go) for _ in range(200)}
            for _ in waiting:
                os.read(ready[0], 1)
            os.close(go[1])  # all of them wait for the lock, and no other request is pending
            time.sleep(1)
            fcntl.lockf(file, fcntl.LOCK_UN)
        path.stat()
        for pid in waiting:
            equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of a waiting process")
        os.sched_setaffinity(0, cpus)


def _ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@scenario(timeout=90, where="server", alone=True)
def uring_ends(rig):
    """An idle mount sleeps; umount, umount -f and a killed mount.dafs leave no process waiting."""
    server = rig.serve()
    (rig.export / "f").write_bytes(b"x" * 100)
    with _parameter("Y"):
        rig.mount(server, "io_uring=on")
        (rig.mnt / "f").read_bytes()
        pid = rig.mounted[rig.mnt].pid
        time.sleep(1)
        before = _ticks(pid)
        time.sleep(2)
        check(_ticks(pid) - before <= 10, f"an idle mount took {_ticks(pid) - before} ticks in two seconds")
        rig.umount()
        for end in ("force", "kill"):
            rig.mount(server, "io_uring=on")
            rig.expect("lost", "no session")
            file = os.open(rig.mnt / "f", os.O_RDWR)
            fcntl.lockf(file, fcntl.LOCK_EX)
            waiter = _wait_for_lock(rig.mnt / "f")
            time.sleep(0.3)
            if end == "kill":
                rig.mounted[rig.mnt].send_signal(signal.SIGKILL)
            else:
                rig.run(["umount", "-f", "-l", rig.mnt], cwd="/", timeout=20)
            status = []

            def ended(waiter=waiter, status=status):
                found, code = os.waitpid(waiter, os.WNOHANG)
                if found:
                    status.append(os.waitstatus_to_exitcode(code))
                return bool(status)

            check(processes.wait_until(ended, 10), f"{end}: a waiting program waits on")
            equal(status, [1], f"{end}: status of the program that waited")
            equal(errno_of(os.close, file), errno.ENOTCONN, f"{end}: close of a file that is gone")
            if end == "kill":
                rig.run(["umount", "-l", rig.mnt], cwd="/", timeout=20)
            rig.mounted.pop(rig.mnt).wait(ENDS_WITHIN)
