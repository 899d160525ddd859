"""State of clients over the end of a server, of a client and of the network: unlinked files, opens and locks."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time

import processes
import proxy
from actors import Actor
from rig import acting_as, check, equal, errno_of, note, scenario
from tree import exported_names

from .failures import kill, mount_through, restart


KEEPS_UNLINKED_FILES_OPEN = """
import os, sys
removed = open("removed", "w+b", buffering=0)
replaced = open("replaced", "w+b", buffering=0)
nameless = open(os.open(".", os.O_TMPFILE | os.O_RDWR), "w+b", buffering=0)
inside = open("inside/removed", "w+b", buffering=0)
files = {"removed": removed, "replaced": replaced, "nameless": nameless, "inside": inside}
for name, file in files.items():
    file.write(name.encode() * 10000)
os.unlink("removed")
os.unlink("inside/removed")
open("other", "wb").write(b"the other")
os.rename("other", "replaced")
print("ready", flush=True)
for line in sys.stdin:
    found = []
    for name, file in files.items():
        if line == "close\\n":
            file.close()
            continue
        file.write(b"after")
        os.fsync(file.fileno())
        data = os.pread(file.fileno(), 1 << 20, 0)
        wanted = name.encode() * 10000 + b"after" * (int(line))
        found.append(f"{data == wanted} {os.fstat(file.fileno()).st_nlink}")
    print(*found, flush=True)
"""


def orphans(*directories):
    """How many nameless files dafsd keeps below these roots of file systems."""
    return sum(len(os.listdir(directory / ".dafsd-orphans")) for directory in directories
               if (directory / ".dafsd-orphans").exists())


@scenario(timeout=120, where="server")
def recover_unlinked(rig):
    """Open files that were unlinked or replaced survive a restart of the server, and are removed after the close."""
    rig.expect("session with .* lost")
    inside = rig.export / "inside"
    for point in (rig.export, inside):  # no other program writes to these file systems
        point.mkdir(exist_ok=True)
        rig.run(["mount", "-t", "tmpfs", "dafs-test", str(point)], cwd="/")
    try:
        server = rig.serve()
        rig.mount(server)
        free = [os.statvfs(directory).f_bfree for directory in (rig.export, inside)]
        with subprocess.Popen([sys.executable, "-c", KEEPS_UNLINKED_FILES_OPEN], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, cwd=rig.mnt, text=True, bufsize=1) as program:
            equal(program.stdout.readline(), "ready\n", "the program")
            for number in (1, 2):
                restart(server)
                program.stdin.write(f"{number}\n")
                equal(program.stdout.readline(), "True 0 True 0 True 0 True 0\n", f"after restart {number}")
                equal(orphans(rig.export, inside), 4, "files kept")
            restart(server)
            program.stdin.write("close\n")
            equal(program.stdout.readline(), "\n", "after the close")
            program.stdin.close()
        check(processes.wait_until(lambda: orphans(rig.export, inside) == 0, 10 * rig.slowness), "files stay")
        equal((rig.export / "replaced").read_bytes(), b"the other", "the file that replaced another")
        os.unlink(rig.mnt / "replaced")
        check(processes.wait_until(
            lambda: [os.statvfs(directory).f_bfree for directory in (rig.export, inside)] >= free,
            10 * rig.slowness), "the space is not free again")
        rig.umount()
        server.stop()
    finally:
        for point in (inside, rig.export):
            rig.run(["umount", "-l", str(point)], cwd="/", status=None)


@scenario(timeout=120, where="server")
def recover_rights(rig):
    """A program that may no longer write keeps everything it wrote while it could, even if the server is killed."""
    rig.expect("session with .* lost", "written again", "write-verifier: missing")
    rig.need("setfacl")
    owner, writer = 5001, 5002
    data = b"written" * 1000
    server = rig.serve()
    rig.mount(server)
    os.chmod(rig.mnt, 0o755)

    def file(name, mode, uid=owner):
        path = rig.mnt / name
        path.touch()
        os.chmod(path, mode)
        os.chown(path, uid, uid)
        return path

    def opened(path):
        with acting_as(writer):
            return os.open(path, os.O_WRONLY)

    def write(descriptor):
        with acting_as(writer):
            equal(os.write(descriptor, data), len(data), "bytes")
            os.close(descriptor)

    closed, held, given, acl = (file("closed", 0o666), file("held", 0o666), file("given", 0o600, writer),
                                file("acl", 0o600))
    with acting_as(owner):
        has_acls = not subprocess.run(["setfacl", "-m", f"u:{writer}:rw", acl], check=False,
                                      stderr=subprocess.DEVNULL).returncode
    write(opened(closed))
    os.chmod(closed, 0o600)
    descriptors = opened(held), opened(given)
    os.chmod(held, 0o600)
    os.chown(given, owner, owner)
    for descriptor in descriptors:
        write(descriptor)
    if has_acls:
        write(opened(acl))
        with acting_as(owner):
            rig.run(["setfacl", "-b", acl])
    for path in (closed, held, given):
        with acting_as(writer):
            equal(errno_of(os.open, path, os.O_WRONLY), errno.EACCES, f"{path.name}, opened when the rights are gone")
    kill(server)
    (server.state / "write-verifier").unlink()  # clients see a server that lost all uncommitted data
    server.start()
    rig.umount()  # the umount commits everything
    for name in ["closed", "held", "given"] + (["acl"] if has_acls else []):
        check((rig.export / name).read_bytes() == data, f"{name} is not what was written")


@scenario(timeout=120, where="server")
def recover_orphans(rig):
    """dafsd removes open files without a name, on every file system, if no client reclaims them in the grace period."""
    rig.expect("session with .* lost", "no session for")
    inside = rig.export / "inside"
    inside.mkdir()
    rig.run(["mount", "-t", "tmpfs", "dafs-test", str(inside)], cwd="/")
    try:
        server = rig.serve(arguments=["--lease-time", "2", "--grace-time", "3"])
        rig.mount(server)
        with subprocess.Popen([sys.executable, "-c", KEEPS_UNLINKED_FILES_OPEN], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, cwd=rig.mnt, text=True) as program:
            equal(program.stdout.readline(), "ready\n", "the program")
            kill(server)
            client = rig.mounted.pop(rig.mnt)
            client.kill()
            client.wait()
            program.kill()
        rig.run(["umount", "-l", str(rig.mnt)], cwd="/", status=None)
        equal(orphans(rig.export, inside), 4, "files kept")
        server.start()
        equal(orphans(rig.export, inside), 4, "files kept in the grace period")
        check(processes.wait_until(lambda: orphans(rig.export, inside) == 0, 10 * rig.slowness),
              "files that no client reclaims stay")
        server.stop()
    finally:
        rig.run(["umount", "-l", str(inside)], cwd="/", status=None)


def waits_until(actor, start, seconds, what):
    """Waits for the answer of `actor`; fails if it arrives clearly before `seconds` after `start`."""
    equal(actor.answer(seconds + 60), 0, what)
    took = time.monotonic() - start
    check(took > 0.9 * seconds - 0.5, f"{what} after {took:.1f} s, before the lease of {seconds} s was over")
    return took


@scenario(timeout=1500, where="server", loopback=True)
def recover_partition(rig):
    """The network is down for longer than the lease: a lock has one holder at a time, and the loser gets an error.
    Shows DAFS-4.4.1.2-33."""
    rig.expect("session with .* lost", "no session for", "new session", "could not be reclaimed", "still waiting",
               "lease .* run out", "expired")
    lease, seconds = (90, 600) if rig.full else (2, 6)
    server = rig.serve(arguments=["--lease-time", str(lease)])
    other = rig.base / "other"
    other.mkdir()
    (rig.export / "file").write_bytes(b"before")
    (rig.export / "free").write_bytes(b"free")
    loser, winner = Actor(), Actor()
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server)
        rig.mount(server, point=other)
        loser.must("open", "f", str(rig.mnt / "file"))
        loser.must("open", "free", str(rig.mnt / "free"))
        winner.must("open", "f", str(other / "file"))
        loser.must("record", "f", "W")
        loser.must("write", "f", "loser 1", 0)
        loser.must("sync", "f")
        winner.refused("record", "f", "W")
        relay.stall()
        start = time.monotonic()
        loser.begin("write, fork and sync", "f", "loser 2", 0)
        winner.begin("record", "f", "W", 0, 0, True)
        took = waits_until(winner, start, lease, "the lock")
        equal(winner.do("read", "f"), "loser 1", "what the next holder reads")
        winner.must("write", "f", "winner 1", 0)
        while time.monotonic() - start < seconds:
            check(loser.waits(min(5, seconds)), "an fsync went on without a network")
        relay.release()
        equal(errno.errorcode.get(loser.answer(120)), "EIO", "the write and fsync of a program that lost its lock")
        equal(winner.do("read", "f"), "winner 1", "what the holder reads")
        loser.refused("write", "f", "loser 3", 0, error=errno.EIO)
        loser.must("write", "free", "FREE", 0)  # where nothing was lost
        loser.must("close", "f")
        loser.must("open", "f", str(rig.mnt / "file"))
        loser.refused("record", "f", "W")
        winner.must("record", "f", "U")
        loser.must("record", "f", "W")
        equal(loser.do("read", "f"), "winner 1", "what is read after all")
        log = (rig.logs / "mount.dafs.log").read_text()
        check("could not be reclaimed" in log, "the log says nothing of the lock that was lost")
        note(f"lease {lease} s, {seconds} s without a network: the next holder had the lock after {took:.1f} s")
        for actor in (loser, winner):
            actor.end()
        rig.umount(other)
        rig.umount()


@scenario(timeout=400, where="server")
def recover_client(rig):
    """A client dies while it holds locks: other clients get them after one lease, and not before."""
    rig.expect("session with .* lost", "no session for", "lease .* run out", "expired")
    lease = 30 if rig.full else 3
    server = rig.serve(arguments=["--lease-time", str(lease)])
    other = rig.base / "other"
    other.mkdir()
    (rig.export / "file").write_bytes(b"before")
    holder, waiter = Actor(), Actor()
    rig.mount(server)
    rig.mount(server, point=other)
    waiter.must("open", "f", str(other / "file"))
    holder.must("open", "f", str(rig.mnt / "file"))
    holder.must("flock", "f", "W")
    client = rig.mounted.pop(rig.mnt)
    start = time.monotonic()
    client.kill()
    client.wait()
    waiter.begin("flock", "f", "W", True)
    note(f"lease {lease} s: the lock came after {waits_until(waiter, start, lease, 'the lock'):.1f} s")
    for actor in (holder, waiter):
        actor.end()
    rig.run(["umount", "-l", str(rig.mnt)], cwd="/", status=None)
    rig.umount(other)


HOLDS_MANY = """
import fcntl, os, sys, time
files = []
for i in range(int(sys.argv[1])):
    files.append(os.open(f"many/{i}", os.O_RDWR | os.O_CREAT))
    os.write(files[-1], b"%d" % i)
    fcntl.lockf(files[-1], fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
os.pwrite(files[0], b"0", 0)
took = time.monotonic() - start
for i, file in enumerate(files):
    if os.pread(file, 20, 0) != b"%d" % i:
        print("wrong data", i, flush=True)
print(took, flush=True)
sys.stdin.readline()
"""


@scenario(timeout=900, where="server")
def recover_many(rig):
    """Thousands of open files, each with a lock: the mount reclaims all of them within the grace period.
    Shows DAFS-5.2.5-08 (locks: dafsd takes the first other request for the end of the reclaim)."""
    rig.expect("session with .* lost", "no session for", "new session")
    count = 8000 if rig.full else 300
    server = rig.serve()
    rig.mount(server)
    (rig.mnt / "many").mkdir()
    other = rig.base / "other"
    other.mkdir()
    rig.mount(server, point=other)
    with subprocess.Popen([sys.executable, "-c", HOLDS_MANY, str(count)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, cwd=rig.mnt, text=True, bufsize=1) as program:
        equal(program.stdout.readline(), "ready\n", "the program")
        kill(server)
        server.start()
        start = time.monotonic()
        program.stdin.write("go on\n")
        took = float(program.stdout.readline())
        check(time.monotonic() - start < 90, f"{count} files and locks took {time.monotonic() - start:.1f} s")
        rival = Actor()
        for i in (0, 1, count // 2, count - 1):
            rival.must("open", str(i), str(other / f"many/{i}"))
            rival.refused("record", str(i), "W")
        rival.end()
        report = json.loads(rig.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], cwd="/"))
        note(f"{count} open files and {count} locks: {took:.2f} s after the server was back; "
             f"server {server.usage()}, reconnects {[worker['connects'] for worker in report['workers']]}")
        program.communicate("end\n", timeout=120 * rig.slowness)
    rig.umount(other)
    rig.run(["rm", "-r", str(rig.mnt / "many")], cwd="/")


@scenario(timeout=300, where="server")
def recover_damage(rig):
    """A client record that is damaged or lost while dafsd is down does not release any lock."""
    rig.expect("session with .* lost", "no session for", "state-[0-9]+/clients: ")
    server = rig.serve(arguments=["--grace-time", "3"])
    other = rig.local / "other"
    other.mkdir()
    (rig.export / "file").write_bytes(b"content")
    rig.mount(server)
    rig.mount(server, point=other)
    record = server.state / "clients"
    for damage in (record.unlink, lambda: os.truncate(record, record.stat().st_size - 1),
                   lambda: record.write_bytes(b"")):
        holder, rival = Actor(), Actor()
        holder.must("open", "f", str(rig.mnt / "file"))
        holder.must("record", "f", "W", 0, 10)
        rival.must("open", "f", str(other / "file"))
        kill(server)
        damage()
        server.start()
        rival.refused("record", "f", "W", 0, 10)  # after it has waited for the end of the grace period
        holder.must("write", "f", "holder", 0)
        holder.must("record", "f", "U", 0, 10)
        rival.must("record", "f", "W", 0, 10)
        for actor in (holder, rival):
            actor.end()
    log = server.log.read_text()
    for words in ("clients: missing; created again", "bytes, but of [1-9]", "bytes, but of 0"):
        check(re.search(words, log), f"the log does not say: {words}")
    rig.umount(other)


@scenario(timeout=120, where="server")
def recover_key(rig):
    """dafsd does not start without the key of its filehandles, and logs the remedy; with the key mounts continue."""
    rig.expect("session with .* lost", "no session for", "handle-key: ")
    server = rig.serve()
    rig.mount(server)
    (rig.mnt / "file").write_bytes(b"content")
    held = os.open(rig.mnt / "file", os.O_RDONLY)
    kill(server)
    key, kept = server.state / "handle-key", rig.local / "kept-key"
    key.rename(kept)
    command = [rig.bin / "dafsd", "--foreground", "--listen", "tcp:127.0.0.1:0", "--state-dir", server.state,
               "--export", server.exports[0]]
    for content in (None, b"", bytes(31), bytes(32)):
        if content is not None:
            key.touch(0o600)
            key.write_bytes(content)
        refusal = rig.run(command, cwd="/", timeout=20, status=1)
        for words in (str(key), "restore it", f"remove the state directory {server.state}"):
            check(words in refusal, f"{refusal} does not say {words}")
        key.unlink(missing_ok=True)
    kept.rename(key)
    server.start()
    equal(os.pread(held, 100, 0), b"content", "what is read when the key is back")
    os.close(held)
    rig.umount()


@scenario(timeout=120, where="server")
def recover_root(rig):
    """A mount continues after the server lost its state directory, or has another directory at the export's path."""
    rig.expect("session with .* lost", "no session for", "filehandle of the mount's root is no longer valid",
               "could not be reclaimed")
    server = rig.serve()
    rig.mount(server)

    def lose_state():
        shutil.rmtree(server.state)

    def lose_directory():
        shutil.rmtree(rig.export)
        rig.export.mkdir()
        os.chmod(rig.export, 0o777)
        (rig.export / "file").write_bytes(b"of the new directory")
        (rig.export / "directory").mkdir()

    (rig.export / "directory").mkdir()
    for number, (lose, content) in enumerate(((lose_state, b"content"), (lose_directory, b"of the new directory"))):
        (rig.export / "file").write_bytes(b"content")
        equal((rig.mnt / "file").read_bytes(), b"content", "a file that the kernel knows")
        os.listdir(rig.mnt / "directory")
        (rig.export / "held").write_bytes(b"never read")
        held = os.open(rig.mnt / "held", os.O_RDWR)
        kill(server)
        lose()
        server.start()
        equal((rig.mnt / "file").read_bytes(), content, "the same name")
        equal(sorted(os.listdir(rig.mnt)), exported_names(rig.export), "names")
        (rig.mnt / "directory/new").write_bytes(b"new")
        equal((rig.export / "directory/new").read_bytes(), b"new", "what is written in a directory that it knew")
        equal(os.stat(rig.mnt).st_ino, os.stat(rig.export).st_ino, "the root's number")
        equal(errno.errorcode.get(errno_of(os.pread, held, 10, 0)), "ESTALE", "a read of what was open")
        equal(errno.errorcode.get(errno_of(os.fstat, held)), "ESTALE", "fstat of what was open")
        os.close(held)
        log = (rig.logs / "mount.dafs.log").read_text()
        equal(log.count("filehandle of the mount's root is no longer valid"), number + 1, "lines about it in the log")
        os.unlink(rig.mnt / "directory/new")
    rig.umount()
