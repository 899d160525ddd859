"""Programs killed while the server does not answer: they end, and their requests disturb no other program."""

import mmap
import os
import signal
import threading
import time

import processes
from rig import check, equal, scenario


class Stopped:
    """Stops a server until the end of the block, or until goes_on()."""

    def __init__(self, server):
        self.pid = server.process.pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        check(processes.wait_until(lambda: processes.stopped(self.pid), 10), "the server does not stop")
        return self

    def goes_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def __exit__(self, *_):
        self.goes_on()


def in_child(action):
    """Forks; the child does `action` and ends. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return pid


def left(pids, seconds):
    """Returns the children that have not ended within `seconds`."""
    there = set(pids)

    def ended():
        there.difference_update([pid for pid in there if os.waitpid(pid, os.WNOHANG)[0]])
        return not there

    processes.wait_until(ended, seconds)
    return sorted(there)


def overtaken(rig, server, first, second):
    """Kills a child in `first` while the server is stopped. The server continues while `second` waits, or after it."""
    with Stopped(server) as stopped:
        child = in_child(first)
        time.sleep(0.3)
        os.kill(child, signal.SIGKILL)
        equal(left([child], 10 * rig.slowness), [], "killed programs that are still there")
        later = threading.Timer(0.4, stopped.goes_on)
        later.start()
        second()
        later.join()
    time.sleep(0.2)  # for a request that arrives late


@scenario(timeout=60, where="server")
def killed_write(rig):
    """A killed program's request takes effect before later writes, truncates and creates, as on a local disk."""
    server = rig.serve()
    rig.mount(server)
    size = 1 << 20
    old, block = mmap.mmap(-1, size), mmap.mmap(-1, 512)
    old.write(b"A" * size)
    block.write(b"B" * 512)
    for flag in (os.O_DSYNC, os.O_DIRECT):
        path = rig.mnt / f"file-{flag}"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | flag)

        def write_and_sync():
            equal(os.pwrite(descriptor, block, 0), 512, "the next write")
            os.fsync(descriptor)

        for first in [lambda: os.pwrite(descriptor, old, 0)] * 3 + [lambda: os.ftruncate(descriptor, 0)]:
            overtaken(rig, server, first, write_and_sync)
            equal((rig.export / path.name).read_bytes()[:512], b"B" * 512, "what is there at last")
        os.close(descriptor)
    for _ in range(3):
        (rig.mnt / "name").write_text("old")
        overtaken(rig, server, lambda: os.unlink(rig.mnt / "name"), lambda: (rig.mnt / "name").write_text("new"))
        equal((rig.export / "name").read_text(), "new", "a name created after a killed unlink")
    rig.umount()


@scenario(timeout=120, where="server")
def killed_writers(rig):
    """More writers than buffers can be killed while the server is stopped; other writers need not wait for them."""
    server = rig.serve()
    for options, count in (("buffers=4", 1), ("buffers=4", 30), ("", 60)):
        rig.mount(server, options)
        descriptors = [os.open(rig.mnt / f"file-{i}", os.O_CREAT | os.O_RDWR | os.O_DIRECT) for i in range(count)]
        block = mmap.mmap(-1, 4096)
        block.write(b"A" * 4096)
        with Stopped(server):
            writers = [in_child(lambda one=one: os.pwrite(one, block, 0)) for one in descriptors]
            time.sleep(1)
            for pid in writers:
                os.kill(pid, signal.SIGKILL)
            equal(left(writers, 10 * rig.slowness), [], f"of {count} killed writers ({options}), still there")
            # Writers that are not killed finish after the server continues.
            writers = [in_child(lambda one=one: os.pwrite(one, block, 4096)) for one in descriptors]
            time.sleep(1)
        equal(left(writers, 20 * rig.slowness), [], f"of {count} writers ({options}), still there")
        for i, one in enumerate(descriptors):
            os.close(one)
            equal((rig.export / f"file-{i}").read_bytes()[4096:], b"A" * 4096, f"what writer {i} wrote")
        rig.umount()
