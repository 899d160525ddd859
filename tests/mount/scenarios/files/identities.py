"""The identity of each request: many users at once, threads of one process, groups that change between two calls."""

import ctypes
import errno
import os
import threading

from rig import Failure, check, equal, errno_of, scenario

from .users import as_user, read, write

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_SETFSUID, SYS_SETFSGID, SYS_SETGROUPS = {"x86_64": (122, 123, 116), "aarch64": (151, 152, 159)}[os.uname().machine]


def _take(uid, groups):
    """Takes a user's rights for the calling thread alone."""
    array = (ctypes.c_uint32 * max(len(groups), 1))(*groups)
    if LIBC.syscall(SYS_SETGROUPS, len(groups), array) != 0:
        raise OSError(ctypes.get_errno(), "setgroups")
    LIBC.syscall(SYS_SETFSGID, uid)
    LIBC.syscall(SYS_SETFSUID, uid)


def _be(root, uid, rounds, wrong):
    """The calls of one user, in a thread or a process of its own. Each mix-up is added to `wrong`."""
    for number in range(rounds):
        _take(uid, [uid + 1000])
        path = f"{root}/common/{uid}-{number}"
        try:
            write(path, str(uid).encode(), 0o600)
            status = os.stat(path)
            if (status.st_uid, status.st_gid) != (uid, uid):
                wrong.append(f"{path} belongs to {status.st_uid}:{status.st_gid}")
            if read(f"{root}/of{uid}/secret") != str(uid).encode():
                wrong.append(f"{uid} read another's file")
            os.chown(path, -1, uid + 1000)
        except OSError as error:
            wrong.append(f"{uid}: {error}")
        for other in (uid - 1, uid + 1):
            number = errno_of(read, f"{root}/of{other}/secret")
            if number not in (errno.EACCES, errno.ENOENT):
                wrong.append(f"{uid} reads the file of {other}: errno {number}")
    _take(0, [])


@scenario(timeout=120, where="mount", variants=True)
def identities(rig):
    """Forty users in processes and threads at once: no request is made in another's name."""
    users = range(20001, 20041)
    os.mkdir(rig.root / "common")
    os.chmod(rig.root / "common", 0o1777)
    for uid in users:
        home = rig.root / f"of{uid}"
        home.mkdir(0o700)
        write(home / "secret", str(uid).encode(), 0o400)
        for path in (home / "secret", home):
            os.chown(path, uid, uid)
    rounds = 30 if rig.full else 5
    children = []
    for first in range(0, len(users), 8):  # five processes of eight threads
        child = os.fork()
        if child == 0:
            wrong = []
            threads = [threading.Thread(target=_be, args=(rig.root, uid, rounds, wrong))
                       for uid in users[first:first + 8]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for line in wrong:
                print(line, flush=True)
            os._exit(1 if wrong else 0)
        children.append(child)
    failed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    equal(failed, [0] * len(children), "processes that saw something mixed up")


@scenario(timeout=60, where="mount", variants=True)
def groups(rig):
    """A process that takes and drops groups has each at its next call."""
    os.chdir(rig.root)
    for name, mode in (("team", 0o770), ("file", 0o640)):
        (os.mkdir if name == "team" else write)(name)
        os.chown(name, 0, 7001)
        os.chmod(name, mode)
    write("mine")
    os.chown("mine", 6001, 6001)
    write("team/inside", mode=0o666)
    wrong = []

    def expect(call, number, what):
        found = errno_of(call)
        if found != number:
            wrong.append(f"{what}: errno {found}, expected {number}")

    def act():
        for _ in range(50):
            _take(6001, [7001])
            expect(lambda: read("file"), 0, "reading with the group")
            expect(lambda: os.close(os.open("team/new", os.O_CREAT | os.O_WRONLY, 0o600)), 0, "creating with the group")
            expect(lambda: os.stat("team/inside"), 0, "stat with the group")
            expect(lambda: os.chown("mine", -1, 7001), 0, "chown to the group")
            _take(6001, [7002])
            expect(lambda: read("file"), errno.EACCES, "reading without the group")
            expect(lambda: os.unlink("team/new"), errno.EACCES, "removing without the group")
            expect(lambda: os.stat("team/inside"), errno.EACCES, "stat without the group")
            expect(lambda: os.chown("mine", -1, 7002), 0, "chown to the new group")
            expect(lambda: os.chown("mine", -1, 7001), errno.EPERM, "chown to a group dropped")
        _take(0, [])

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    if wrong:
        raise Failure(f"{len(wrong)} wrong, the first: {wrong[0]}")
    os.chdir("/")


@scenario(timeout=60, where="mount", variants=True)
def one_creates(rig):
    """Of many that create a name exclusively, through two mounts, exactly one succeeds."""
    second = rig.base / "second"
    second.mkdir()
    rig.mount(rig.servers[0], point=second)
    (rig.root / "race").mkdir(0o777)
    points = (rig.root / "race", second / "race")
    ways = {
        "open": lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
        "mkdir": os.mkdir, "mkfifo": os.mkfifo, "symlink": lambda path: os.symlink("x", path),
    }
    for number in range(20 if rig.full else 6):
        for name, call in ways.items():
            start_read, start_write = os.pipe()
            children = []
            for which in range(6):
                child = os.fork()
                if child == 0:
                    os.close(start_write)
                    os.read(start_read, 1)  # ends when the parent lets go
                    os._exit(errno_of(call, points[which % 2] / f"{name}{number}"))
                children.append(child)
            os.close(start_read)
            os.close(start_write)
            found = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
            equal(found, [0] + [errno.EEXIST] * 5, f"errors of six {name} at once")
    check(as_user(1234, lambda: os.rmdir(points[0])) != 0, "a directory of another's was removed")
