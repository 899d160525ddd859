"""Processes that lock files on command, so that a scenario can order the calls of several processes."""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct

from rig import Failure, equal

LIBC = ctypes.CDLL(None, use_errno=True)
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
FLOCK = "hhqqi4x"  # struct flock with 64-bit offsets
KINDS = {"R": fcntl.F_RDLCK, "W": fcntl.F_WRLCK, "U": fcntl.F_UNLCK}
FLOCKS = {"R": fcntl.LOCK_SH, "W": fcntl.LOCK_EX, "U": fcntl.LOCK_UN}


def _errno(result):
    return ctypes.get_errno() if result < 0 else 0


def _fcntl(descriptor, command, kind, start, length):
    buffer = ctypes.create_string_buffer(struct.pack(FLOCK, KINDS[kind], os.SEEK_SET, start, length, 0))
    error = _errno(LIBC.fcntl(descriptor, command, buffer))
    return error, struct.unpack(FLOCK, buffer.raw[:struct.calcsize(FLOCK)])


def record(descriptor, kind, start=0, length=0, wait=False):
    """A record lock of this process; returns an errno."""
    return _fcntl(descriptor, fcntl.F_SETLKW if wait else fcntl.F_SETLK, kind, start, length)[0]


def ofd(descriptor, kind, start=0, length=0, wait=False):
    """A lock of the open file description; returns an errno."""
    return _fcntl(descriptor, OFD_SETLKW if wait else OFD_SETLK, kind, start, length)[0]


def flock(descriptor, kind, wait=False):
    """flock(2); returns an errno."""
    return _errno(LIBC.flock(descriptor, FLOCKS[kind] | (0 if wait else fcntl.LOCK_NB)))


def blocker(descriptor, kind="W", start=0, length=0, command=fcntl.F_GETLK):
    """Returns the conflicting lock that F_GETLK reports, (kind, start, length, pid), or None."""
    error, (found, _whence, start, length, pid) = _fcntl(descriptor, command, kind, start, length)
    equal(error, 0, "F_GETLK")
    return None if found == fcntl.F_UNLCK else ("W" if found == fcntl.F_WRLCK else "R", start, length, pid)


class Actor:
    """A process with named descriptors."""

    def __init__(self):
        self.near, far = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.near.close()
                _serve(far)
            finally:
                os._exit(0)
        far.close()

    def begin(self, *words):
        """Sends a command without waiting for its result."""
        self.near.sendall(json.dumps(words).encode() + b"\n")

    def answer(self, seconds=20):
        self.near.settimeout(seconds)
        text = b""
        try:
            while not text.endswith(b"\n"):
                part = self.near.recv(65536)
                if not part:
                    raise Failure("the process ended")
                text += part
        except TimeoutError:
            raise Failure(f"no answer within {seconds} s") from None
        return json.loads(text)

    def waits(self, seconds=0.3):
        """Whether the command that was sent last is still running."""
        self.near.settimeout(seconds)
        try:
            return not self.near.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True

    def do(self, *words):
        self.begin(*words)
        return self.answer()

    def must(self, *words):
        equal(self.do(*words), 0, " ".join(map(str, words)))

    def refused(self, *words, error=errno.EAGAIN):
        equal(errno.errorcode.get(self.do(*words), "success"), errno.errorcode[error], " ".join(map(str, words)))

    def end(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        os.waitpid(self.pid, 0)
        self.near.close()


def _serve(far):
    signal.signal(signal.SIGALRM, lambda *_: None)  # without SA_RESTART
    held = {}
    children = []
    with far, far.makefile("r", encoding="utf-8") as orders:
        for line in orders:
            verb, *rest = json.loads(line)
            far.sendall(json.dumps(_obey(verb, rest, held, children)).encode() + b"\n")


def _obey(verb, rest, held, children):
    try:
        if verb == "open":
            held[rest[0]] = os.open(rest[1], getattr(os, rest[2]) if len(rest) > 2 else os.O_RDWR)
        elif verb == "close":
            os.close(held.pop(rest[0]))
        elif verb == "write":
            os.pwrite(held[rest[0]], rest[1].encode(), rest[2])
        elif verb == "read":
            return os.pread(held[rest[0]], 1000, 0).decode()
        elif verb == "write, fork and sync":  # the exit of the child closes its copy of the descriptor
            os.pwrite(held[rest[0]], rest[1].encode(), rest[2])
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            os.fsync(held[rest[0]])
        elif verb == "sync":
            os.fsync(held[rest[0]])
        elif verb == "dup":
            held[rest[1]] = os.dup(held[rest[0]])
        elif verb == "alarm":
            signal.setitimer(signal.ITIMER_REAL, rest[0])
        elif verb == "fork":  # a child that holds the same descriptors, until "reap"
            here, there = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(there)
                os.read(here, 1)
                os._exit(0)
            os.close(here)
            children.append((child, there))
        elif verb == "reap":
            child, there = children.pop()
            os.close(there)
            os.waitpid(child, 0)
        elif verb == "blocker":
            return blocker(held[rest[0]], *rest[1:])
        else:
            return {"record": record, "ofd": ofd, "flock": flock}[verb](held[rest[0]], *rest[1:])
    except OSError as error:
        return error.errno
    return 0
