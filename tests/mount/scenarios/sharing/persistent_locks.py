"""Persistent locks: a mount that fails leaves its locks broken until a program of another mount repairs the file."""

import errno
import json
import os
import signal
import subprocess

import processes
from actors import Actor, flock, record
from rig import check, equal, errno_of, scenario


def _failed_locks(rig, server):
    text = rig.run([rig.bin / "dafsctl", "server", "locks", "--broken", "--json", "--socket", server.socket], cwd="/")
    return sorted((lock["state"], lock["kind"]) for lock in json.loads(text)["locks"])


def _kill(rig, point):
    """Ends a mount.dafs as a crash of its machine would."""
    rig.mounted[point].kill()
    rig.run(["umount", "-l", str(point)], cwd="/", timeout=20)
    rig.mounted.pop(point).wait()


def _lock(rig, *words, status=0):
    return rig.run([rig.bin / "dafs-lock", *words], cwd="/", timeout=30, status=status)


@scenario(timeout=60, where="server")
def persistent_locks_client_gone(rig):
    """The locks of a killed mount.dafs give EOWNERDEAD elsewhere, and EIO to reads and writes, until dafs-lock --repair.

    Shows DAFS-4.4.1.3-09, DAFS-4.4.1.3-10."""
    server = rig.serve(arguments=["--lease-time", "1"])
    (rig.export / "f").write_bytes(b"0" * 100)
    second = rig.base / "second"
    second.mkdir()
    rig.mount(server, "persist_locks")
    rig.mount(server, "nowrite_behind", point=second)
    holder = Actor()
    holder.must("open", "f", str(rig.mnt / "f"))
    holder.must("record", "f", "W", 0, 10)
    holder.must("flock", "f", "W")

    # While it lives, they are locks as any other, but mandatory.
    other = os.open(second / "f", os.O_RDWR)
    equal(record(other, "W", 0, 10), errno.EAGAIN, "while the mount lives")
    _lock(rig, "-n", second / "f", "true", status=1)
    equal(errno_of(os.pwrite, other, b"x", 0), errno.EACCES, "a write under the lock of another")
    equal(_failed_locks(rig, server), [], "failed locks while the mount lives")

    _kill(rig, rig.mnt)
    holder.end(signal.SIGKILL)
    check(processes.wait_until(lambda: record(other, "W", 0, 10) == errno.EOWNERDEAD, 10), "no EOWNERDEAD within 10 s")
    check(processes.wait_until(lambda: flock(other, "W") == errno.EOWNERDEAD, 10), "no EOWNERDEAD of flock within 10 s")
    said = _lock(rig, second / "f", "true", status=3)
    check("--repair" in said, f"dafs-lock does not name the remedy: {said}")
    equal(_failed_locks(rig, server), [("broken", "flock"), ("broken", "range")], "broken locks")
    equal(errno_of(os.pread, other, 10, 0), errno.EIO, "a read under the broken lock")
    equal(errno_of(os.pwrite, other, b"x", 0), errno.EIO, "a write under the broken lock")

    # The repair, during which nothing else changes; then it is a file as any other, also for what was open.
    repair = f"printf repaired | dd of='{second / 'f'}' conv=notrunc status=none; exit 7"
    _lock(rig, "--repair", second / "f", "-c", repair, status=7)
    equal((rig.export / "f").read_bytes(), b"repaired" + b"0" * 92, "the repaired file")
    equal(_failed_locks(rig, server), [], "failed locks after the repair")
    equal(record(other, "W", 0, 10), 0, "a lock after the repair")
    equal(os.pread(other, 8, 0), b"repaired", "a read after the repair")
    os.pwrite(other, b"written!", 0)
    os.close(other)
    _lock(rig, "--repair", second / "f", status=69)
    _lock(rig, "-n", second / "f", "true")


@scenario(timeout=60, where="server")
def persistent_locks_next_instance(rig):
    """A mount that follows a killed one at the same place breaks its locks at once; dafsctl forgets them."""
    server = rig.serve()
    (rig.export / "f").write_bytes(b"0" * 100)
    rig.mount(server)
    # Without persist_locks it is dafs-lock that asks for it; its lock ends with it.
    _lock(rig, "--persist", rig.mnt / "f", "true")
    _lock(rig, "-n", rig.mnt / "f", "true")
    said = _lock(rig, "--persist", rig.export / "f", "true", status=69)
    check("not on a mount" in said, f"dafs-lock on another file system: {said}")
    ready = rig.base / "ready"
    program = subprocess.Popen([rig.bin / "dafs-lock", "--persist", rig.mnt / "f", "-c", f"touch {ready}; sleep 60"],
                               cwd="/", stdin=subprocess.DEVNULL, start_new_session=True)
    check(processes.wait_until(ready.exists, 10), "dafs-lock does not run its command")
    _kill(rig, rig.mnt)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()

    rig.mount(server)
    fresh = os.open(rig.mnt / "f", os.O_RDWR)
    equal(flock(fresh, "W"), errno.EOWNERDEAD, "the next instance")
    equal(_failed_locks(rig, server), [("broken", "flock")], "broken locks")
    release = [rig.bin / "dafsctl", "server", "locks", "--release", rig.export / "f", "--socket", server.socket]
    check("1 broken locks forgotten" in rig.run(release, cwd="/"), "--release")
    equal(flock(fresh, "W"), 0, "a lock that was forgotten")
    rig.run(release, cwd="/", status=1)
    os.close(fresh)


@scenario(timeout=60, where="server")
def auto_recovery_client_gone(rig):
    """The changes of a killed mount.dafs under an auto-recovery lock are undone before another client gets the lock.

    Shows DAFS-4.4.1.4-02, DAFS-4.4.1.5-05."""
    server = rig.serve(arguments=["--lease-time", "1"])
    before = b"before" * 20000
    (rig.export / "f").write_bytes(before)
    second = rig.base / "second"
    second.mkdir()
    rig.mount(server)
    rig.mount(server, point=second)
    ready = rig.base / "ready"
    change = f"printf changed | dd of='{rig.mnt / 'f'}' conv=notrunc,fsync bs=1 seek=70000 status=none && " \
             f"truncate -s 80000 '{rig.mnt / 'f'}' && touch {ready} && sleep 60"
    program = subprocess.Popen([rig.bin / "dafs-lock", "--auto-recover", rig.mnt / "f", "-c", change],
                               cwd="/", stdin=subprocess.DEVNULL, start_new_session=True)
    check(processes.wait_until(ready.exists, 20), "dafs-lock does not run its command")
    check(b"changed" in (rig.export / "f").read_bytes(), "the change is not in the file")
    text = rig.run([rig.bin / "dafsctl", "server", "locks", "--socket", server.socket], cwd="/")
    check("held auto-recovery" in text, f"dafsctl server locks: {text}")
    _lock(rig, "-n", second / "f", "true", status=1)

    _kill(rig, rig.mnt)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    _lock(rig, "-w", "20", second / "f", "true")
    check((rig.export / "f").read_bytes() == before, "the file is not as it was before the lock")
    check((second / "f").read_bytes() == before, "another mount does not see the file as it was")


@scenario(timeout=60, where="server")
def auto_recovery_command_fails(rig):
    """dafs-lock --auto-recover keeps the changes of a command that succeeds, and undoes those of one that fails."""
    server = rig.serve()
    (rig.export / "f").write_bytes(b"0123456789")
    rig.mount(server)
    file = rig.mnt / "f"
    equal(file.read_bytes(), b"0123456789", "before")
    _lock(rig, "--auto-recover", file, "-c", f"printf new > '{file}'; exit 7", status=7)
    equal((rig.export / "f").read_bytes(), b"0123456789", "after a command that failed")
    equal(file.read_bytes(), b"0123456789", "the same on the mount, which had cached the change")
    _lock(rig, "--auto-recover", file, "-c", f"printf new > '{file}'")
    equal((rig.export / "f").read_bytes(), b"new", "after a command that succeeded")
    script = f"exec 9<>'{file}'; {rig.bin}/dafs-lock -a 9 && printf other >&9 && {rig.bin}/dafs-lock --abort 9; exec 9>&-"
    rig.run(["sh", "-c", script], cwd="/", timeout=30)
    equal((rig.export / "f").read_bytes(), b"new", "after --abort")
    equal(file.read_bytes(), b"new", "the same on the mount")
    equal(os.listdir(rig.mnt), ["f"], "names at the root of the export")
