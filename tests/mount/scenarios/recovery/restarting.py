"""The restart of mount.dafs while programs use its mount (docs/restart.md)."""

import contextlib
import json
import mmap
import os
import pathlib
import random
import re
import select
import signal
import sqlite3
import subprocess
import time
import traceback

import pytest

import processes
import proxy
from actors import Actor
from rig import check, equal, errno_of, note, scenario
from scenarios.operators.control import ask
from scenarios.recovery.failures import mount_through

CYCLE_SECONDS = float(os.environ.get("DAFS_CYCLE_SECONDS", "600"))


def restarts_of(rig, point):
    """How often dafsctl says that the mount was restarted."""
    done = subprocess.run([rig.bin / "dafsctl", "status", "--json", point], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=30, check=True)
    return json.loads(done.stdout)["restarts"]


def restart(rig, *words, point=None):
    status, text = ask(rig, "restart", point or rig.mnt, *words)
    equal(status, 0, f"exit status of dafsctl restart ({text})")


class Worker:
    """A child that repeats `step(n)` until end(), which returns how often it did. An error is a failure."""

    def __init__(self, step):
        self.there, here = os.pipe()
        stop, self.stop = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self.stop)
                count = 0
                while not select.select([stop], [], [], 0)[0]:
                    step(count)
                    count += 1
                os.write(here, str(count).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        os.close(here)
        os.close(stop)

    def end(self):
        os.write(self.stop, b".")  # other children have it open, so that closing it does not suffice
        os.close(self.stop)
        text = os.read(self.there, 100)
        _pid, status = os.waitpid(self.pid, 0)
        os.close(self.there)
        equal(status, 0, "status of a program that ran across the restarts")
        return int(text)


def appender(path):
    held = []

    def step(n):
        if not held:
            held.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
        os.write(held[0], b"%015d\n" % n)
    return step


def renamer(directory):
    def step(n):
        temporary, final = f"{directory}/tmp", f"{directory}/n{n % 7}"
        with open(temporary, "w", encoding="ascii") as file:
            file.write(str(n))
        os.rename(temporary, final)
        with open(final, encoding="ascii") as file:
            assert file.read() == str(n)
        os.mkdir(f"{directory}/d")
        os.rmdir(f"{directory}/d")
    return step


def check_appended(path, count):
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    equal(len(lines), count, "appended records")
    equal(lines, [b"%015d" % n for n in range(count)], "appended records in order")


@scenario(timeout=120, where="server")
def restart_unnoticed(rig):
    """Programs notice nothing of five restarts: descriptors, locks, a directory, a mapping and writes go on."""
    rounds = 5
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nconnect=2")
    (rig.mnt / "dir").mkdir()
    (rig.mnt / "names").mkdir()
    for name in ("f", "map", "gone", "dir/x", "dir/y"):
        (rig.mnt / name).write_bytes(b"0" * 8192)
    keeper, waiter = Actor(), Actor()
    for one in (keeper, waiter):
        one.must("open", "f", str(rig.mnt / "f"))
    keeper.must("record", "f", "W", 0, 10)
    keeper.must("flock", "f", "W")
    waiter.begin("record", "f", "W", 0, 10, True)
    gone = os.open(rig.mnt / "gone", os.O_RDWR)
    os.unlink(rig.mnt / "gone")
    listing = os.scandir(rig.mnt / "dir")
    first = next(listing).name
    os.chdir(rig.mnt / "dir")
    workers = [Worker(appender(rig.mnt / "log")), Worker(renamer(rig.mnt / "names"))]
    with open(rig.mnt / "map", "r+b") as file, mmap.mmap(file.fileno(), 8192) as mapped:
        for n in range(rounds):
            mapped[n] = ord("a") + n
            os.pwrite(gone, b"%d" % n, n)
            restart(rig)
            equal(restarts_of(rig, rig.mnt), n + 1, "restarts in dafsctl status")
            equal(os.getcwd(), str(rig.mnt / "dir"), "the current directory")
            equal(sorted(os.listdir(".")), ["x", "y"], "names in the current directory")
            equal(os.pread(gone, 5, 0), b"01234"[:n + 1] + b"0000"[n:], "an open file without a name")
            other = Actor()
            other.must("open", "f", str(rig.mnt / "f"))
            other.refused("record", "f", "W", 0, 1)
            other.refused("flock", "f", "W")
            other.end()
            check(waiter.waits(0.05), "the waiter has the lock although another program holds it")
        mapped.flush()
    rest = sorted([first] + [entry.name for entry in listing])
    equal(rest, ["x", "y"], "a listing that was begun before the restarts")
    keeper.must("record", "f", "U", 0, 10)
    equal(waiter.answer(10 * rig.slowness), 0, "the lock that was waited for across the restarts")
    appended, renamed = [worker.end() for worker in workers]
    note(f"{appended} appends, {renamed} renames")
    check(appended > 0 and renamed > 0, f"{appended} appends and {renamed} renames during {rounds} restarts")
    check_appended(rig.export / "log", appended)
    equal((rig.export / "map").read_bytes()[:rounds], b"abcde"[:rounds], "what was written through the mapping")
    for one in (keeper, waiter):
        one.end()
    os.close(gone)
    os.chdir("/")


@scenario(timeout=120, where="server")
def restart_refused(rig):
    """A restart that cannot be is refused with the reason, and the mount goes on. SIGTERM to the guardian unmounts."""
    rig.expect(".*was not restarted.*")
    server = rig.serve()
    rig.mount(server, "guardian")
    (rig.mnt / "f").write_text("x")
    status, text = ask(rig, "restart", rig.mnt, "--program", "/bin/true")
    equal(status, 1, f"exit status for another program ({text})")
    check("cannot continue a mount" in text, f"the message for another program: {text}")
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
        status, text = ask(rig, "restart", rig.mnt)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    equal(status, 1, f"exit status while the server does not answer ({text})")
    check("the server does not answer" in text, f"the message while the server does not answer: {text}")
    (rig.mnt / "f").write_text("y")
    restart(rig)
    equal((rig.mnt / "f").read_text(), "y", "the file after all")
    process = rig.mounted.pop(rig.mnt)
    process.send_signal(signal.SIGTERM)
    equal(process.wait(20 * rig.slowness), 0, "exit status of the guardian after SIGTERM")
    check(not os.path.ismount(rig.mnt), "still mounted after SIGTERM to the guardian")
    rig.mount(server, "noguardian")
    status, text = ask(rig, "restart", rig.mnt)
    equal(status, 1, f"exit status without a guardian ({text})")
    check("no guardian" in text, f"the message without a guardian: {text}")


def need_survival():
    """Skips where a mount does not outlive a kill."""
    release = os.uname().release
    if tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", release).groups()) < (6, 16):
        pytest.skip(f"Linux {release} cannot forget all names")


def program_of(rig, point=None):
    """The process id of the mount.dafs of a mount, rig.mnt by default; 0 while there is none."""
    guardian = rig.mounted[point or rig.mnt].pid
    with open(f"/proc/{guardian}/task/{guardian}/children", encoding="ascii") as file:
        return int((file.read().split() or ["0"])[0])


def replace_killed(rig):
    """Kills the mount.dafs of rig.mnt and waits until the guardian has started another one, which need not serve yet."""
    killed = program_of(rig)
    os.kill(killed, signal.SIGKILL)
    check(processes.wait_until(lambda: program_of(rig) not in (0, killed), 20 * rig.slowness, 0.02),
          "no program continues the mount")


def kill_program(rig):
    """Kills the mount.dafs of rig.mnt and waits until another one continues the mount."""
    before = restarts_of(rig, rig.mnt)
    os.kill(program_of(rig), signal.SIGKILL)

    def continued():
        done = subprocess.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False)
        return done.returncode == 0 and json.loads(done.stdout)["restarts"] > before

    check(processes.wait_until(continued, 20 * rig.slowness, 0.05), "no program continues the mount")


def follower(path):
    def step(n):
        os.stat(path)
        os.stat(path + "/deep/er")
        assert not os.path.exists(f"{path}/absent{n % 100}")
    return step


def check_exclusive(rig, point, excluded):
    """Whether another program, at `point`, is refused the locks that keepers hold on dir/file."""
    other = Actor()
    other.must("open", "f", str(point / "dir" / "file"))
    if excluded:
        other.refused("record", "f", "W", 5, 6)
        other.refused("flock", "f", "W")
    else:
        other.must("record", "f", "W", 5, 6)
        other.must("flock", "f", "W")
    other.end()


@scenario(timeout=120, where="server")
def restart_killed(rig):
    """A mount outlives mount.dafs that is killed: paths, open files, listings and locks go on, also for other mounts."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nconnect=2")
    second = rig.base / "second"
    second.mkdir()
    (rig.mnt / "dir" / "deep" / "er").mkdir(parents=True)
    (rig.mnt / "dir" / "file").write_text("first")
    (rig.mnt / "gone").write_bytes(b"0" * 9)
    inode = os.stat(rig.mnt / "dir" / "file").st_ino
    keeper, waiter = Actor(), Actor()
    for one in (keeper, waiter):
        one.must("open", "f", str(rig.mnt / "dir" / "file"))
    keeper.must("record", "f", "W", 0, 10)
    keeper.must("flock", "f", "W")
    waiter.begin("record", "f", "W", 0, 10, True)
    held = os.open(rig.mnt / "held", os.O_RDWR | os.O_CREAT)
    os.pwrite(held, b"before", 0)
    os.fsync(held)
    gone = os.open(rig.mnt / "gone", os.O_RDWR)
    os.unlink(rig.mnt / "gone")
    nameless = os.open(rig.mnt, os.O_RDWR | os.O_TMPFILE)
    reader = os.open(rig.mnt / "held", os.O_RDONLY)
    listing = os.scandir(rig.mnt / "dir")
    names = [next(listing).name]
    os.chdir(rig.mnt / "dir")
    worker = Worker(follower(str(rig.mnt / "dir")))
    rig.mount(server, point=second)
    for n in range(3):
        kill_program(rig)
        with open("new", "w", encoding="ascii") as new:  # before the server gives promises: no open may stay
            new.write("x")
        os.unlink("new")
        equal(sorted(os.listdir(".")), ["deep", "file"], "names in the current directory")
        equal(os.stat("file").st_ino, inode, "the file's number")
        os.pwrite(held, b"after%d" % n, 0)
        os.fsync(held)
        equal(os.pread(reader, 9, 0), b"after%d" % n, "an open file read")
        equal((rig.export / "held").read_bytes(), b"after%d" % n, "an open file at the server")
        for one in (gone, nameless):
            os.pwrite(one, b"%d" % n, n)
            equal(os.pread(one, n + 1, 0), b"012"[:n + 1], "an open file without a name")
        for point in (rig.mnt, second):
            check_exclusive(rig, point, excluded=True)
        check(waiter.waits(0.05), "the waiter has the lock although another program holds it")
    equal(sorted(names + [entry.name for entry in listing]), ["deep", "file"], "a listing that was begun before")
    keeper.must("record", "f", "U", 0, 10)
    equal(waiter.answer(10 * rig.slowness), 0, "the lock that was waited for across the kills")
    for one in (keeper, waiter):
        one.end()
    check_exclusive(rig, second, excluded=False)
    check(worker.end() > 0, "the follower did nothing")
    for one in (held, gone, nameless, reader):
        os.close(one)
    os.chdir("/")
    left = []

    def closed():
        status, text = ask(rig, "server", "opens", "--json", "--socket", server.socket)
        equal(status, 0, f"exit status of dafsctl server opens ({text})")
        left[:] = json.loads(text)["opens"]
        return not left

    check(processes.wait_until(closed, 10 * rig.slowness, 0.1), f"opens that no program uses: {left}")
    restart(rig)


def create(directory):
    os.close(os.open(directory / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))


# The calls of a program in a directory with the file `old` and the directory `empty`, and what is in it afterwards.
CHANGES = {
    "mkdir": (lambda at: os.mkdir(at / "new"), {"new", "old", "empty"}),
    "create": (create, {"new", "old", "empty"}),
    "symlink": (lambda at: os.symlink("old", at / "new"), {"new", "old", "empty"}),
    "mkfifo": (lambda at: os.mkfifo(at / "new", 0o600), {"new", "old", "empty"}),
    "link": (lambda at: os.link(at / "old", at / "new"), {"new", "old", "empty"}),
    "rename": (lambda at: os.rename(at / "old", at / "new"), {"new", "empty"}),
    "unlink": (lambda at: os.unlink(at / "old"), {"empty"}),
    "rmdir": (lambda at: os.rmdir(at / "empty"), {"old"}),
    "chmod": (lambda at: os.chmod(at / "old", 0o600), {"old", "empty"}),
    "truncate": (lambda at: os.truncate(at / "old", 3), {"old", "empty"}),
    "setxattr": (lambda at: os.setxattr(at / "old", "user.a", b"x", os.XATTR_CREATE), {"old", "empty"}),
}


# The calls of a program on a file that it has opened before, and the content afterwards.
OPEN_CHANGES = {
    "append": (os.O_WRONLY | os.O_APPEND, lambda file: os.write(file, b"more"), b"contentmore"),
    "allocate": (os.O_WRONLY, lambda file: os.posix_fallocate(file, 0, 9), b"content\0\0"),
    "copy": (os.O_RDWR, lambda file: os.copy_file_range(file, file, 3, 4, 0), b"enttent"),
}


@contextlib.contextmanager
def stopped(pid):
    """Stops a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        check(processes.wait_until(lambda: processes.stopped(pid), 10), "the process does not stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def begin_change(change, at):
    """Starts a program that makes the change in a directory, or to an open file. Its exit status is 0 or the errno."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            # A copy of one of the relay's connections would keep it open.
            kept = at if isinstance(at, int) else 2
            os.closerange(3, kept)
            os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
            change(at)
            status = 0
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return pid


def kill_within_changes(rig, relay, direction, segment, names, number, pause=0.1):
    """Kills mount.dafs after `segment` segments of changes under way. Returns False if there were fewer."""
    root = rig.mnt / f"{direction}-{segment}-{number}"
    for name in names:
        (root / name / "empty").mkdir(parents=True)
        (root / name / "old").write_text("content")
        os.listdir(root / name)
    files = {}
    if set(names) == set(CHANGES):
        for name, (flags, _, _) in OPEN_CHANGES.items():
            (root / name).write_text("content")
            files[name] = os.open(root / name, flags)
    before = relay.broken
    relay.break_after(direction, segment, proxy.STALL)
    programs = {name: begin_change(CHANGES[name][0], root / name) for name in names}
    programs |= {name: begin_change(OPEN_CHANGES[name][1], file) for name, file in files.items()}
    reached = processes.wait_until(lambda: relay.broken > before, 2 * rig.slowness, 0.01)
    if reached:
        time.sleep(pause)  # the other programs wait, too
        killed = next(iter(rig.daemons()))
        os.kill(killed, signal.SIGKILL)
        check(processes.wait_until(lambda: rig.daemons() and killed not in rig.daemons(), 20 * rig.slowness, 0.02),
              "no program continues the mount")
    relay.break_nothing()
    relay.release()
    where = f"kill at segment {segment} to the {'server' if direction == proxy.TO_SERVER else 'client'}"
    for name, pid in programs.items():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        equal(status and os.strerror(status), 0, f"error of {name}, {where}")
    for name, file in files.items():
        os.close(file)
        equal((rig.export / root.name / name).read_bytes(), OPEN_CHANGES[name][2], f"content after {name}, {where}")
    for name in names:
        at = rig.export / root.name / name
        equal(set(os.listdir(at)), CHANGES[name][1], f"names after {name}, {where}")
        equal(set(os.listdir(root / name)), CHANGES[name][1], f"names on the mount after {name}, {where}")
        if name == "link":
            equal((at / "old").stat().st_nlink, 2, f"links, {where}")
        if name in ("chmod", "truncate"):
            found = (at / "old").stat()
            equal(found.st_size if name == "truncate" else found.st_mode & 0o777, 3 if name == "truncate" else 0o600,
                  f"{name}, {where}")
    return reached


@scenario(timeout=120, where="server")
def restart_killed_without_server(rig):
    """mount.dafs is killed while the server is away: programs that look at the mount wait, and all goes on with the
    server. The kernel gives up a mount for good whose root has wrong attributes. dafsctl does not wait with them."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"])
    rig.mount(server, "guardian")
    inode = os.stat(rig.mnt).st_ino
    server.stop(signal.SIGKILL)
    killed = program_of(rig)
    os.kill(killed, signal.SIGKILL)
    status, text = ask(rig, "status", rig.mnt)
    equal(status, 0, f"exit status of dafsctl while another program starts ({text})")
    check(program_of(rig) != killed, "the killed program is still there")
    with subprocess.Popen(["stat", "-c", "%i", rig.mnt], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program:
        time.sleep(1)  # longer than the mount waits for a server before it returns old attributes
        equal(program.poll(), None, "status of a program while no attributes are known")
        server.start()
        equal(int(program.communicate(timeout=30 * rig.slowness)[0]), inode, "number of the root")
    (rig.mnt / "after").write_text("x")
    equal(os.listdir(rig.mnt), ["after"], "names")


@scenario(timeout=120, where="server")
def restart_killed_notifying(rig):
    """mount.dafs is killed while it drops a name of a directory that a program has locked in the kernel, and before it
    answers that program. It ends nevertheless, and another one answers."""
    need_survival()
    rig.expect(".*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"], ["--recall-time", "8"])
    rig.mount(server, "guardian,nconnect=2")
    others = [rig.base / "silent", rig.base / "other"]
    for point in others:
        point.mkdir()
        rig.mount(server, "guardian", point=point)
    (rig.mnt / "dir" / "sub").mkdir(parents=True)
    for point in (rig.mnt, *others):
        os.listdir(point / "dir")
        os.stat(point / "dir" / "sub")
    with stopped(program_of(rig, others[0])):
        making = begin_change(lambda at: os.mkdir(at / "new"), rig.mnt / "dir")
        time.sleep(0.3)
        removing = begin_change(lambda at: os.rmdir(at / "sub"), others[1] / "dir")
        time.sleep(0.5)
        killed = program_of(rig)
        os.kill(killed, signal.SIGKILL)
        check(processes.wait_until(lambda: program_of(rig) not in (0, killed), 5 * rig.slowness),
              "no program continues the mount")
    for pid, what in ((making, "mkdir"), (removing, "rmdir")):
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, f"error of {what}")
    for point in (rig.mnt, others[1]):
        equal(os.listdir(point / "dir"), ["new"], "names")


@scenario(timeout=120, where="server", long_only=True)
def restart_killed_not_continued(rig):
    """While no program continues the mount, dafsctl says so within its time limit."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*")
    rig.mount(rig.serve(), "guardian")
    equal(restarts_of(rig, rig.mnt), 0, "restarts")  # its guardian knows by now how to continue the mount
    guardian = rig.mounted[rig.mnt].pid
    os.kill(guardian, signal.SIGSTOP)
    try:
        os.kill(program_of(rig), signal.SIGKILL)
        status, text = ask(rig, "status", rig.mnt)
    finally:
        os.kill(guardian, signal.SIGCONT)
    equal(status, 1, f"exit status of dafsctl while no program continues the mount ({text})")
    check("has ended, and no other one continues it" in text, f"the message: {text}")
    status, text = ask(rig, "status", rig.mnt)
    equal(status, 0, f"exit status of dafsctl afterwards ({text})")


@scenario(timeout=120, where="server")
def restart_killed_changes(rig):
    """Changes that are under way when mount.dafs is killed are made once, and their programs see no error."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, "guardian,nconnect=2")
        for direction in (proxy.TO_SERVER, proxy.TO_CLIENT):
            check(kill_within_changes(rig, relay, direction, 3, list(CHANGES), 0), "no change was under way")
        rig.umount()


def kill_within_open(rig, relay, segment):
    """Kills mount.dafs after `segment` segments to it of a program that opens a file, which is removed afterwards. The
    server must not keep the file. Returns False if there were fewer."""
    path = rig.mnt / f"opened-{segment}"
    (rig.export / path.name).write_text("content")
    os.stat(path)
    before = relay.broken
    relay.break_after(proxy.TO_CLIENT, segment, proxy.STALL)
    program = begin_change(lambda at: os.close(os.open(at, os.O_RDONLY)), path)
    reached = processes.wait_until(lambda: relay.broken > before, rig.slowness, 0.01)
    if reached:
        replace_killed(rig)
    relay.break_nothing()
    relay.release()
    where = f"kill at segment {segment}"
    equal(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), 0, f"errno, {where}")
    os.unlink(path)
    check(processes.wait_until(lambda: not os.listdir(rig.export / ".dafsd-orphans"), 5 * rig.slowness, 0.05),
          f"the server keeps the removed file, {where}")
    return reached


@scenario(timeout=120, where="server")
def restart_killed_opens(rig):
    """mount.dafs is killed before it learns of a delegation: the server does not keep the file when it is removed."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"], ("--recall-time", "1"))
    kills = 0
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, "guardian")
        while kill_within_open(rig, relay, kills + 1):
            kills += 1
        check(kills > 0, "no kill")
        rig.umount()


# Stops mount.dafs, while a file exists, in the moment in which the kernel has an answer: to the order to send requests
# again (PAUSE_AFTER_RESEND), or to an OPEN or CREATE (PAUSE_AFTER_OPEN). Or before it reads a request
# (PAUSE_BEFORE_READ).
PAUSES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void pause_while(const char* pause) {
  if (pause == NULL || access(pause, F_OK) != 0) return;
  char reached[4096];
  snprintf(reached, sizeof(reached), "%s.reached", pause);
  FILE* file = fopen(reached, "w");
  if (file != NULL) fclose(file);
  for (int i = 0; i < 3000 && access(pause, F_OK) == 0; ++i) usleep(10000);
}

ssize_t read(int fd, void* into, size_t size) {
  ssize_t (*next)(int, void*, size_t) = dlsym(RTLD_NEXT, "read");
  char link[32], target[16] = "";
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (size >= 8192 && readlink(link, target, sizeof(target) - 1) > 0 && strcmp(target, "/dev/fuse") == 0) {
    pause_while(getenv("PAUSE_BEFORE_READ"));
  }
  return next(fd, into, size);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  ssize_t (*next)(int, const struct iovec*, int) = dlsym(RTLD_NEXT, "writev");
  const ssize_t written = next(fd, parts, count);
  const uint32_t* words = parts[0].iov_base;  // a fuse_out_header: length, error, number
  if (parts[0].iov_len < 16) return written;
  const int no_request = words[2] == 0 && words[3] == 0;
  if (count == 1 && words[1] == 7 && no_request) pause_while(getenv("PAUSE_AFTER_RESEND"));
  const int opens = words[0] == 16 + 16 || words[0] == 16 + 128 + 16;  // with a fuse_open_out
  if (opens && words[1] == 0 && !no_request) pause_while(getenv("PAUSE_AFTER_OPEN"));
  return written;
}
"""


@contextlib.contextmanager
def pausing(rig, name, pause):
    """A mount made within it stops at the pause `name` while the file `pause` exists."""
    library = rig.base / "pauses.so"
    rig.run(["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library], cwd="/", stdin=PAUSES.encode())
    os.environ.update({"LD_PRELOAD": str(library), name: str(pause)})
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"], os.environ[name]


def opens_left(rig, server):
    status, text = ask(rig, "server", "opens", "--json", "--socket", server.socket)
    equal(status, 0, f"exit status of dafsctl server opens ({text})")
    return json.loads(text)["opens"]


def kill_both_within_open(rig, relay, server, pause, call, segment):
    """Kills mount.dafs after `segment` segments to it of a program that opens, and then the program, before another
    mount.dafs has read its request again. Returns False if there were fewer."""
    path = rig.mnt / f"{call.__name__}-{segment}"
    (rig.export / path.name).write_text("content")
    os.stat(path)
    check(processes.wait_until(lambda: not opens_left(rig, server), 5 * rig.slowness, 0.05), "opens before")
    reached = pathlib.Path(f"{pause}.reached")
    before = relay.broken
    relay.break_after(proxy.TO_CLIENT, segment, proxy.STALL)
    program = begin_change(call, path)
    if processes.wait_until(lambda: relay.broken > before, rig.slowness, 0.01):
        pause.write_text("")
        reached.unlink(missing_ok=True)
        replace_killed(rig)
        check(processes.wait_until(reached.exists, 20 * rig.slowness, 0.01), "the kernel sends nothing again")
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)
        relay.break_nothing()
        relay.release()
        pause.unlink()
        check(processes.wait_until(lambda: not opens_left(rig, server), 5 * rig.slowness, 0.05),
              f"opens of a program that was killed in {call.__name__}, at segment {segment}: {opens_left(rig, server)}")
        return True
    relay.break_nothing()
    equal(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), 0, f"errno of {call.__name__}")
    return False


def open_file(at):
    os.close(os.open(at, os.O_RDONLY))


def create_file(at):
    os.close(os.open(at.with_name(at.name + "-new"), os.O_WRONLY | os.O_CREAT))


@scenario(timeout=120, where="server")
def restart_killed_with_opener(rig):
    """A program is killed while its open is sent again to the mount.dafs that follows a killed one: the server keeps no
    open of it."""
    need_survival()
    rig.need("gcc")
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    pause = rig.base / "pause"
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"], ["--delegations", "none"])
    kills = 0
    with proxy.Proxy(server.port) as relay:
        with pausing(rig, "PAUSE_AFTER_RESEND", pause):
            mount_through(rig, relay, server, "guardian")
        for call in (open_file, create_file):
            segment = 1
            while kill_both_within_open(rig, relay, server, pause, call, segment):
                segment += 1
                kills += 1
        note(f"{kills} kills")
        check(kills > 1, f"{kills} kills")
        rig.umount()


@scenario(timeout=60, where="server")
def restart_killed_after_open(rig):
    """mount.dafs is killed when the kernel has its answer to an open, and before it has noted so: the file stays open."""
    need_survival()
    rig.need("gcc")
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    pause = rig.base / "pause"
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"], ["--delegations", "none"])
    with pausing(rig, "PAUSE_AFTER_OPEN", pause):
        rig.mount(server, "guardian")
    (rig.export / "old").write_text("content")
    os.stat(rig.mnt / "old")
    for name, flags in (("old", os.O_RDWR), ("new", os.O_RDWR | os.O_CREAT)):
        pause.write_text("")
        descriptor = os.open(rig.mnt / name, flags)
        reached = pathlib.Path(f"{pause}.reached")
        check(processes.wait_until(reached.exists, 5 * rig.slowness, 0.01), "no answer to an open was seen")
        reached.unlink()
        replace_killed(rig)
        pause.unlink()
        time.sleep(rig.slowness)
        equal(len(opens_left(rig, server)), 1, f"opens of {name}")
        os.pwrite(descriptor, b"changed", 0)
        os.fsync(descriptor)
        equal((rig.export / name).read_bytes(), b"changed", f"data of {name}")
        os.close(descriptor)
        check(processes.wait_until(lambda: not opens_left(rig, server), 5 * rig.slowness, 0.05), "opens after close")
    rig.umount()


@scenario(timeout=60, where="server")
def restart_killed_and_read_late(rig):
    """The mount.dafs that follows a killed one reads no request for some seconds. Until then it cannot be restarted, as
    the next one would not know what was sent. Afterwards the open of a program that was killed meanwhile ends."""
    need_survival()
    rig.need("gcc")
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*", ".*was not restarted.*")
    pause = rig.base / "pause"
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"], ["--delegations", "none"])
    with proxy.Proxy(server.port) as relay:
        with pausing(rig, "PAUSE_BEFORE_READ", pause):
            mount_through(rig, relay, server, "guardian")
        path = rig.mnt / "file"
        (rig.export / "file").write_text("content")
        os.stat(path)
        relay.break_after(proxy.TO_CLIENT, 1, proxy.STALL)
        program = begin_change(open_file, path)
        check(processes.wait_until(lambda: opens_left(rig, server), 5 * rig.slowness, 0.01), "the server has no open")
        pause.write_text("")
        replace_killed(rig)
        reached = pathlib.Path(f"{pause}.reached")
        check(processes.wait_until(reached.exists, 20 * rig.slowness, 0.01), "no request is read")
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)
        relay.break_nothing()
        relay.release()
        time.sleep(3 * rig.slowness)
        status, text = ask(rig, "restart", rig.mnt)
        check(status != 0 and "have not all been read" in text, f"restart while requests are unread: {status}, {text}")
        equal(len(opens_left(rig, server)), 1, "opens before the requests were read")
        pause.unlink()
        check(processes.wait_until(lambda: not opens_left(rig, server), 5 * rig.slowness, 0.05),
              f"opens of the killed program: {opens_left(rig, server)}")
        equal(ask(rig, "restart", rig.mnt)[0], 0, "restart afterwards")
        equal(path.read_text(), "content", "content")
        rig.umount()


@scenario(timeout=1800, where="server", long_only=True)
def restart_killed_at_each_message(rig):
    """The same, at each message of each change."""
    need_survival()
    rig.expect(".*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"])
    pause = 2.5  # the guardian gives up after 30 kills within a minute
    kills = 0
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, "guardian,nconnect=2")
        for number, name in enumerate(CHANGES):
            for direction in (proxy.TO_SERVER, proxy.TO_CLIENT):
                segment = 1
                while kill_within_changes(rig, relay, direction, segment, [name], number, pause):
                    segment += 1
                    kills += 1
        for direction in (proxy.TO_SERVER, proxy.TO_CLIENT):
            segment = 1
            while kill_within_changes(rig, relay, direction, segment, list(CHANGES), len(CHANGES), pause):
                segment += 1
                kills += 1
        note(f"{kills} kills")
        check(kills > 2 * len(CHANGES), f"{kills} kills")
        rig.umount()


@scenario(timeout=1800, where="server", long_only=True)
def restart_cycle(rig):
    """A restart each second for three minutes under appends, renames, and random writes that are read back."""
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nconnect=2")
    (rig.mnt / "names").mkdir()
    size = 1 << 20
    descriptor = os.open(rig.mnt / "data", os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, bytes(size), 0)
    chance = random.Random(1)
    model = bytearray(size)

    def write(_n):
        at, length = chance.randrange(size - 9000), chance.randrange(1, 9000)
        data = chance.randbytes(length)
        assert os.pwrite(descriptor, data, at) == length
        model[at:at + length] = data
        at = chance.randrange(size - 9000)
        assert os.pread(descriptor, 9000, at) == model[at:at + 9000]

    workers = [Worker(appender(rig.mnt / "log")), Worker(renamer(rig.mnt / "names")), Worker(write)]
    end = time.monotonic() + 180
    count = 0
    while time.monotonic() < end:
        restart(rig)
        count += 1
        time.sleep(1)
    appended, renamed, written = [worker.end() for worker in workers]
    note(f"{count} restarts, {appended} appends, {renamed} renames, {written} writes")
    check_appended(rig.export / "log", appended)
    os.close(descriptor)


def scribbler(path, size, rest):
    """Writes at random places of a file, reads them back, and calls fsync. An error is a failure."""
    held = []
    chance = random.Random(path)
    model = bytearray(size)

    def step(n):
        if not held:
            held.append(os.open(path, os.O_RDWR))
        at, length = chance.randrange(size - 9000), chance.randrange(1, 9000)
        data = chance.randbytes(length)
        assert os.pwrite(held[0], data, at) == length
        model[at:at + length] = data
        if n % rest == 0:
            os.fsync(held[0])
        at = chance.randrange(size - 9000)
        assert os.pread(held[0], 9000, at) == model[at:at + 9000], f"step {n}: other data at {at}"
    return step


@scenario(timeout=600, where="server", long_only=True)
def restart_killed_writing(rig):
    """Twenty kills, often before the last one is settled, under buffered writes: no byte is lost, no fsync fails."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*were written again")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nconnect=2")
    size = 1 << 20
    names = [f"data{n}" for n in range(3)]
    for name in names:
        (rig.mnt / name).write_bytes(bytes(size))
    workers = [Worker(scribbler(str(rig.mnt / name), size, 7 * n + 1)) for n, name in enumerate(names)]
    for _ in range(20):
        time.sleep(random.random() / 2)
        kill_program(rig)
        time.sleep(1.5 * random.randrange(2))
    counts = [worker.end() for worker in workers]
    note(f"20 kills, {counts} writes")
    for name in names:
        equal((rig.mnt / name).read_bytes(), (rig.export / name).read_bytes(), f"{name} at the server")


def run_quietly(words, cwd):
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "x",
                               "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}"


def verifier(directory):
    """fio writes a file at random places and verifies it."""
    def step(n):
        run_quietly(["fio", "--name=verified", f"--directory={directory}", "--rw=randrw", "--bsrange=512-64k", "--size=8m",
                     "--ioengine=psync", "--fsync=32", "--verify=crc32c", "--verify_fatal=1", f"--randseed={n}",
                     "--minimal"], directory)
    return step


def committer(directory):
    """git commits, packs and checks out."""
    def step(n):
        if n == 0:
            run_quietly(["git", "init", "-q"], directory)
        for name in range(5):
            with open(f"{directory}/file{(n + name) % 23}", "a", encoding="ascii") as file:
                file.write(f"{n}\n" * (1 + n % 50))
        run_quietly(["git", "add", "-A"], directory)
        run_quietly(["git", "commit", "-qm", f"commit {n}"], directory)
        if n % 10 == 9:
            run_quietly(["git", "gc", "-q"], directory)
            run_quietly(["git", "fsck", "--no-progress"], directory)
            run_quietly(["git", "checkout", "-q", "HEAD~5"], directory)
            run_quietly(["git", "checkout", "-q", "-"], directory)
    return step


def ledger(path, number):
    """Transfers between accounts in an SQLite file that two processes use. The sum stays, and each transfer is once."""
    held = []

    def step(n):
        if not held:
            held.append(sqlite3.connect(path, timeout=60, isolation_level=None))
        data = held[0]
        data.execute("BEGIN IMMEDIATE")
        data.execute("UPDATE accounts SET amount = amount - 1 WHERE id = ?", (n % 10,))
        data.execute("UPDATE accounts SET amount = amount + 1 WHERE id = ?", ((n * 7 + number) % 10,))
        data.execute("INSERT INTO transfers VALUES (?, ?)", (number, n))
        data.execute("COMMIT")
        assert data.execute("SELECT SUM(amount) FROM accounts").fetchone() == (1000,)
    return step


def check_ledger(path, counts):
    data = sqlite3.connect(path)
    equal(data.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "integrity of the SQLite file")
    equal(data.execute("SELECT SUM(amount) FROM accounts").fetchone(), (1000,), "sum of the accounts")
    for number, count in enumerate(counts):
        found = data.execute("SELECT n FROM transfers WHERE number = ? ORDER BY n", (number,)).fetchall()
        equal(found, [(n,) for n in range(count)], f"transfers of process {number}")
    data.close()


@scenario(timeout=1800, where="server", long_only=True)
def restart_kill_cycle(rig):
    """Ten minutes, a restart each second and a kill each five: no program sees an error, nothing is lost or doubled."""
    need_survival()
    rig.need("fio", "git")
    rig.expect(".*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nconnect=2")
    for name in ("fio", "git", "names", "dir/deep/er"):
        (rig.mnt / name).mkdir(parents=True)
    (rig.mnt / "locked").write_text("x")
    path = rig.mnt / "accounts.db"
    data = sqlite3.connect(path)
    data.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, amount INTEGER)")
    data.execute("CREATE TABLE transfers (number INTEGER, n INTEGER)")
    data.executemany("INSERT INTO accounts VALUES (?, 100)", [(n,) for n in range(10)])
    data.commit()
    data.close()
    keeper = Actor()
    keeper.must("open", "f", str(rig.mnt / "locked"))
    keeper.must("record", "f", "W", 0, 10)
    keeper.must("flock", "f", "W")
    steps = {"fio": verifier(rig.mnt / "fio"), "git": committer(rig.mnt / "git"), "SQLite": ledger(path, 0),
             "SQLite too": ledger(path, 1), "appends": appender(rig.mnt / "log"), "renames": renamer(rig.mnt / "names"),
             "lookups": follower(str(rig.mnt / "dir"))}
    workers = {name: Worker(step) for name, step in steps.items()}
    end = time.monotonic() + CYCLE_SECONDS
    restarts = kills = refused = 0
    while time.monotonic() < end:
        if (restarts + refused + kills) % 5 == 4:
            kill_program(rig)
            kills += 1
        else:
            status, text = ask(rig, "restart", rig.mnt)
            if status == 0:
                restarts += 1
            else:  # a call took longer than a restart waits
                check("not restarted" in text, f"exit status {status} of dafsctl restart: {text}")
                refused += 1
        if kills % 10 == 5:
            other = Actor()
            other.must("open", "f", str(rig.mnt / "locked"))
            other.refused("record", "f", "W", 5, 6)
            other.refused("flock", "f", "W")
            other.end()
        time.sleep(1)
    counts = {name: worker.end() for name, worker in workers.items()}
    note(f"{restarts} restarts, {refused} refused, {kills} kills, {counts}")
    check(all(counts.values()), f"programs that did nothing: {counts}")
    check(restarts > kills, f"{restarts} restarts, {refused} refused")
    check_appended(rig.export / "log", counts["appends"])
    check_ledger(path, [counts["SQLite"], counts["SQLite too"]])
    run_quietly(["git", "fsck", "--strict", "--no-progress"], rig.mnt / "git")
    keeper.end()
    rig.root, rig.behind = rig.mnt, rig.export
    try:
        rig.check_content(patience=20 * rig.slowness)
    finally:
        ask(rig, "server", "opens", "--socket", server.socket)
