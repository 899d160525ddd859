"""A disk whose power can fail: a block device that remembers which writes were flushed.

It is a FUSE file system of one file, under a loop device. Writes wait in a cache, as in a disk, until a flush takes
them to the image. When the power fails, each cached write survives, is lost or survives in part: sector by sector, at
random, in the order of arrival.
"""

import ctypes
import errno
import mmap
import os
import random
import signal
import stat
import struct
import subprocess
import threading
import time

import processes

SECTOR = 512
MOST = 1 << 20  # bytes of one write

GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 3, 4, 14, 15, 16, 17, 18, 20, 25, 26
FORGET, INTERRUPT, BATCH_FORGET, DESTROY = 2, 36, 42, 38
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22


def take_loop(file):
    """A loop device over `file`. Another process may take the free device between the search and the attach."""
    os.stat(file)  # Linux 6.1 learns the size of a FUSE file only by requesting its attributes
    for attempt in range(20):
        done = subprocess.run(["losetup", "--find", "--show", str(file)], check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return done.stdout.decode().strip()
        time.sleep(0.05 * attempt)
    raise OSError(f"losetup: {done.stderr.decode().strip()}")


class Recorder:
    """Serves the file in a process of its own, until it is killed."""

    def __init__(self, device, image, seed):
        self.device = device
        with open(image, "r+b") as file:
            self.image = mmap.mmap(file.fileno(), 0)
        self.random = random.Random(seed)
        self.cached = []  # (offset, data) in order, not yet safe
        self.off = False
        self.released = threading.Event()  # set after the processes that wait for the disk are dead
        self.lock = threading.Lock()
        self.flushes = self.writes = 0

    def serve(self):
        while True:
            try:
                request = os.read(self.device, MOST + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # unmounted
            _, opcode, unique, _ = struct.unpack_from("<IIQQ", request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            with self.lock:
                answer = self.answer(opcode, request[40:])
                off = self.off
            if off:  # no reply reports a write or flush as done after the failure
                self.released.wait()
            error, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
            if opcode == DESTROY:
                return

    def answer(self, opcode, body):
        """The body of the answer, or an errno."""
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, MOST, BIG_WRITES | MAX_PAGES, 64, 64, MOST, 1, MOST // 4096, 0, 0)
        if opcode in (GETATTR, SETATTR):
            size = len(self.image)
            return struct.pack("<QII6Q10I", 3600, 0, 0, 1, size, size // 512, 0, 0, 0, 0, 0, 0, stat.S_IFREG | 0o600,
                               1, 0, 0, 0, 4096, 0)
        if opcode == OPEN:
            return struct.pack("<QIi", 0, 1, 0)  # direct: every write arrives here at once
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.read(offset, size)
        if opcode == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.writes += 1
            if not self.off:
                self.cached.append((offset, body[40:40 + size]))
            return struct.pack("<II", size, 0)
        if opcode == FSYNC:
            self.flushes += 1
            if not self.off:
                for offset, data in self.cached:
                    self.image[offset:offset + len(data)] = data
                self.cached = []
            return b""
        if opcode == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 20, 1 << 20, 1, 1, 4096, 255, 4096, 0)
        return b"" if opcode in (RELEASE, FLUSH, DESTROY) else errno.ENOSYS

    def read(self, offset, size):
        data = bytearray(self.image[offset:offset + size])
        for start, written in self.cached:
            begin, end = max(start, offset), min(start + len(written), offset + size)
            if begin < end:
                data[begin - offset:end - offset] = written[begin - start:end - start]
        return bytes(data)

    def fail(self):
        """Fails the power. Returns how many writes were in the cache, and how many sectors of them survived."""
        with self.lock:
            self.off = True
            stayed = 0
            for offset, data in self.cached:
                fate = self.random.choice(("stays", "goes", "torn"))
                for at in range(0, len(data), SECTOR):
                    if fate == "stays" or (fate == "torn" and self.random.random() < 0.5):
                        self.image[offset + at:offset + at + SECTOR] = data[at:at + SECTOR]
                        stayed += 1
            return f"{len(self.cached)} {stayed} {self.writes} {self.flushes}"


def _run(device, orders, image, seed):
    recorder = Recorder(device, image, seed)
    orders.recv(1)  # sent after the mount: before it, reading the device fails

    def obey():
        orders.recv(1)
        orders.sendall(recorder.fail().encode())
        orders.recv(1)
        recorder.released.set()

    threading.Thread(target=obey, daemon=True).start()
    recorder.serve()


class RecordingDisk:
    """The disk, a loop device on it and an ext4 on that, mounted at `point`; made of `image`, which lasts."""

    def __init__(self, directory, point, size, seed):
        self.image = directory / "image"
        self.file = directory / "disk"  # where the FUSE file appears
        self.point = point
        self.seed = seed
        self.loop = None
        self.pid = None
        self.file.touch()
        point.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-J", "size=4", str(self.image)], check=True,
                       stdin=subprocess.DEVNULL)

    def switch_on(self):
        import socket  # pylint: disable=import-outside-toplevel
        self.seed += 1
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=100600,user_id=0,group_id=0".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        near, far = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                near.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                _run(device, far, self.image, self.seed)
            finally:
                os._exit(0)
        far.close()
        self.orders = near
        if libc.mount(b"recording", os.fsencode(self.file), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount of a FUSE file")
        near.sendall(b"x")
        os.close(device)
        self.loop = take_loop(self.file)
        subprocess.run(["mount", "-t", "ext4", self.loop, str(self.point)], check=True, stdin=subprocess.DEVNULL)

    def fail(self):
        """Fails the power: data that is not on the image by now is lost. Processes that use the disk wait until
        release(). Returns the numbers of cached writes, surviving sectors, writes and flushes."""
        self.orders.sendall(b"x")
        return self.orders.recv(1000).decode()

    def release(self):
        self.orders.sendall(b"x")

    def switch_off(self):
        """Takes everything down; writes made after fail() are lost."""
        if self.pid is None:
            return
        subprocess.run(["umount", str(self.point)], check=False, stdin=subprocess.DEVNULL)
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], check=False, stdin=subprocess.DEVNULL)
        processes.wait_until(lambda: subprocess.run(["umount", str(self.file)], check=False, stdin=subprocess.DEVNULL,
                                                    stderr=subprocess.DEVNULL).returncode == 0, 10, 0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.orders.close()
        self.pid = self.loop = None
