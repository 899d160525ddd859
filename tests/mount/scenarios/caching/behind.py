"""Write-behind: every call that could show that the server lacks a write must wait for the write."""

import errno
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import processes
import proxy
from rig import check, equal, errno_of, note, scenario

from scenarios.recovery.failures import kill, mount_through

PIECE = b"0123456789abcdef" * 64  # 1 KiB
LATER = 0.3  # seconds; a call that must wait does not return in them


def in_thread(call, *args):
    """Starts `call`; returns the thread and the list that its result will be in."""
    result = []
    thread = threading.Thread(target=lambda: result.append(call(*args)), daemon=True)
    thread.start()
    return thread, result


@scenario(timeout=60, where="server", loopback=True)
def behind_waits(rig):
    """While the server is silent, write(2) returns, and each call that could show the difference waits for it."""
    server = rig.serve()
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server)
        os.chdir(rig.mnt)
        for what in ("stat", "read", "open", "fsync", "close", "truncate", "listing"):
            descriptor = os.open(f"file-{what}", os.O_CREAT | os.O_RDWR)
            os.listdir()  # the names are known
            look = {
                "stat": lambda: os.stat(f"file-{what}").st_size,
                "read": lambda: len(os.pread(descriptor, 1 << 20, 16 << 10)) + (16 << 10),
                "open": lambda: len(pathlib.Path(f"file-{what}").read_bytes()),
                "fsync": lambda: os.fsync(descriptor) or 32 << 10,
                "close": lambda: os.close(os.dup(descriptor)) or 32 << 10,
                "truncate": lambda: os.truncate(f"file-{what}", 32 << 10) or 32 << 10,
                "listing": lambda: {entry.name: entry.stat().st_size for entry in os.scandir()}[f"file-{what}"],
            }[what]
            relay.break_after(proxy.TO_CLIENT, 1, proxy.STALL)
            start = time.monotonic()
            for _ in range(32):
                os.write(descriptor, PIECE)
            note(f"{what}: 32 writes returned in {time.monotonic() - start:.4f} s without an answer")
            thread, size = in_thread(look)
            thread.join(LATER)
            check(thread.is_alive(), f"{what} did not wait for what was written before")
            relay.release()
            thread.join(20 * rig.slowness)
            equal(size, [32 << 10], what)
            os.close(descriptor)
            equal((rig.export / f"file-{what}").read_bytes(), PIECE * 32, what)
        os.chdir("/")
        rig.umount()


@scenario(timeout=60, where="server")
def behind_off(rig):
    """With nowrite_behind, noac and O_SYNC the server has the data when write(2) returns, each time."""
    server = rig.serve()
    for options, flags in (("nowrite_behind", 0), ("noac", 0), ("sync", 0), ("", os.O_SYNC), ("", os.O_DSYNC),
                           ("", os.O_APPEND)):
        rig.mount(server, options)
        name = f"{options}-{flags}"
        descriptor = os.open(rig.mnt / name, os.O_CREAT | os.O_WRONLY | flags)
        for count in range(1, 201):
            os.write(descriptor, PIECE)
            equal((rig.export / name).stat().st_size, count * len(PIECE), f"{name}: size at the server")
        os.close(descriptor)
        rig.umount()


@scenario(timeout=60, where="server")
def behind_error(rig):
    """After a late write error the next writes fail, close and fsync report it, fsync once per open; the log names it."""
    disk = rig.base / "disk"
    disk.mkdir()
    rig.run(["mount", "-t", "tmpfs", "-o", "size=4m", "dafs-test", disk], cwd="/")
    try:
        rig.mount(rig.serve([f"/data={disk},rw,no_root_squash"]))
        for name in ("first", "second"):
            with open(rig.mnt / name, "wb", buffering=0) as file, open(rig.mnt / name, "r+b", buffering=0) as other:
                (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bfree * os.statvfs(disk).f_bsize))
                equal(file.write(PIECE), len(PIECE), "a write that fails later")
                equal(os.stat(rig.mnt / name).st_size, 0, "size after the failure")
                equal((rig.mnt / name).read_bytes(), b"", "what the kernel kept of it")
                equal(errno_of(os.write, file.fileno(), PIECE), errno.ENOSPC, "the next write")
                copy = os.dup(file.fileno())
                equal(errno_of(os.close, copy), errno.ENOSPC, "the close of one descriptor")
                equal(errno_of(os.close, os.dup(file.fileno())), errno.ENOSPC, "the close of another descriptor")
                equal(errno_of(os.fsync, file.fileno()), errno.ENOSPC, "the fsync after that")
                equal(errno_of(os.fsync, file.fileno()), 0, "the second fsync")
                equal(errno_of(os.close, os.dup(file.fileno())), 0, "a close after the fsync")
                equal(errno_of(os.fsync, other.fileno()), errno.ENOSPC, "the fsync of one opened before the failure")
                with open(rig.mnt / name, "r+b", buffering=0) as late:
                    equal(errno_of(os.fsync, late.fileno()), 0, "the fsync of one opened after the failure")
                os.unlink(disk / "filler")
                equal(file.write(PIECE), len(PIECE), "a write when there is room")
            equal((disk / name).read_bytes(), bytes(len(PIECE)) + PIECE, "the file")  # the offset moved on
        rig.umount()
        for server in rig.servers:
            server.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
    rig.expect("first: 1024 bytes at 0 could not be written", "second: 1024 bytes at 0 could not be written")


FORKING = """
import json, mmap, os, sys
name, filler, how = sys.argv[1:]
errno_of = {}
def note(what, call, *args):
    try:
        call(*args)
        errno_of[what] = 0
    except OSError as error:
        errno_of[what] = error.errno
file = os.open(name, os.O_CREAT | os.O_RDWR)
os.ftruncate(file, 4096)
room = os.statvfs(os.path.dirname(filler))
open(filler, "wb").write(bytes(room.f_bfree * room.f_bsize))
note("write", os.pwrite, file, b"x" * 4096, 0)
for _ in range(2):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
if how == "msync":
    note("report", mmap.mmap(file, 4096).flush)
elif how == "fsync":
    note("report", os.fsync, file)
elif how == "O_SYNC":  # reports it, or fails itself
    os.unlink(filler)
    again = os.open(f"/proc/self/fd/{file}", os.O_RDWR | os.O_SYNC)
    note("report", os.fsync, again)
    note("later write", os.pwrite, again, b"y", 0)
else:
    note("report", os.close, file)
print(json.dumps(errno_of))
"""


@scenario(timeout=60, where="server")
def behind_forked(rig):
    """A child that exits does not consume a late write error: fsync, msync and close of its parent report it."""
    disk = rig.base / "disk"
    disk.mkdir()
    rig.run(["mount", "-t", "tmpfs", "-o", "size=4m", "dafs-test", disk], cwd="/")
    try:
        server = rig.serve([f"/data={disk},rw,no_root_squash"])
        for options in ("", "sync_on_close"):
            rig.mount(server, options)
            for how in ("fsync", "msync", "close", "O_SYNC"):
                found = json.loads(rig.run([sys.executable, "-c", FORKING, rig.mnt / how, disk / "filler", how],
                                           cwd="/"))
                equal(found["write"], 0, f"{how}: a write that fails late")
                equal(found["report"], errno.ENOSPC, f"{how} after a forked child's exit")
                equal(found.get("later write", 0), 0, f"{how}: a write after the report")
                (disk / "filler").unlink(missing_ok=True)
                (disk / how).unlink()
            rig.umount()
        for one in rig.servers:
            one.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
    rig.expect("4096 bytes at 0 could not be written")


@scenario(timeout=60, where="server")
def behind_removed(rig):
    """Files that are removed before their data is committed, by unlink or by a rename over them, are never committed."""
    rig.mount(rig.serve())
    files = 100

    def write(name):
        file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(file, PIECE)
        return file

    def commits():
        report = json.loads(rig.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], cwd="/"))
        found = report["procedures"].get("COMMIT", {"calls": 0, "errors": 0})
        return found["calls"], found["errors"]

    os.chdir(rig.mnt)
    for number in range(files):
        os.close(write("removed"))
        os.unlink("removed")
        os.close(write("replaced"))  # by the next, all but the last
        os.rename("replaced", "kept")
        file = write("open")
        os.unlink("open")
        os.close(file)
        os.close(write(f"linked-{number % 2}"))
        os.link(f"linked-{number % 2}", "link")
        os.unlink(f"linked-{number % 2}")
        os.rename("link", f"link-{number % 2}")
    os.chdir("/")
    time.sleep(6)  # COMMITs are sent 5 s after the write
    equal(commits(), (3, 0), "COMMITs, and those that failed")
    time.sleep(10)  # the data was written again after the failed COMMIT
    equal(commits(), (3, 0), "COMMITs later")


WRITERS = """
import json, os, random, sys, time
name, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
draw = random.Random(seed)
descriptor = os.open(name, os.O_CREAT | os.O_RDWR)
mirror, rounds, until = bytearray(), 0, time.monotonic() + seconds
while time.monotonic() < until:
    at = draw.choice((len(mirror), len(mirror), draw.randrange(len(mirror) + 1)))
    for _ in range(draw.randrange(1, 30)):
        data = draw.randbytes(draw.choice((1, 500, 4096, 5000, 70000, 300000)))
        os.pwrite(descriptor, data, at)
        mirror[at:at + len(data)] = data
        at += len(data)
        if draw.random() < 0.1:
            size = os.fstat(descriptor).st_size
            assert size == len(mirror), (size, len(mirror))
    if draw.random() < 0.2:
        os.fsync(descriptor)
    if len(mirror) > 20 << 20:
        os.ftruncate(descriptor, 0)
        mirror.clear()
    at = draw.randrange(len(mirror) + 1)
    assert os.pread(descriptor, 100000, at) == mirror[at:at + 100000], at
    rounds += 1
os.close(descriptor)
assert open(name, "rb").read() == mirror
print(json.dumps(rounds))
"""


@scenario(timeout=180, where="server")
def behind_restart(rig):
    """Four programs write and read while the server is killed again and again: each sees only its own data."""
    rig.expect("session with .* lost", "no session for", "were written again")
    server = rig.serve()
    rig.mount(server, "nconnect=2")
    seconds = 8 * (6 if rig.full else 1)
    seed = int(time.time())
    note(f"seed {seed}")
    programs = [subprocess.Popen([sys.executable, "-c", WRITERS, f"file{i}", str(seed + i), str(seconds)],
                                 cwd=rig.mnt, stdout=subprocess.PIPE) for i in range(4)]
    kills = 0
    while any(program.poll() is None for program in programs) and kills < seconds:
        time.sleep(0.8)
        kill(server)
        server.start()
        kills += 1
    rounds = [json.loads(program.communicate(timeout=90 * rig.slowness)[0] or "0") for program in programs]
    equal([program.returncode for program in programs], [0] * 4, "programs")
    check(all(rounds), f"rounds {rounds}")
    note(f"{kills} kills, {sum(rounds)} rounds")
    rig.umount()
