"""Caches under the server's promises: what another mount changes is dropped here before the change is made."""

import errno
import json
import os
import random
import signal
import subprocess
import threading
import time

import processes
import proxy
from rig import check, equal, note, scenario

from scenarios.recovery.failures import mount_through
from .caching import LATEST, seen_within, two_mounts

RECALL = 2  # seconds, of the servers here
RECALLING = ("--recall-time", str(RECALL))
LATE = 1.0  # seconds that a busy machine may add
SOON = 1.0  # seconds in which a mount that runs again has dropped what it cached


def status(rig, point):
    text = subprocess.run([rig.bin / "dafsctl", "status", "--json", point], check=True, timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    return json.loads(text)


def await_promises(rig, point, caching="bounded"):
    """Waits until the server gives promises to the mount."""
    check(processes.wait_until(lambda: status(rig, point)["caching"] == caching, 10 * rig.slowness),
          f"{point.name} has no promises of the server")


def timed(call, *arguments, **named):
    """Returns the seconds that the call takes."""
    start = time.monotonic()
    call(*arguments, **named)
    return time.monotonic() - start


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


class InBackground(threading.Thread):
    """A call on a thread of its own."""

    def __init__(self, call, *arguments):
        super().__init__(daemon=True)
        self.call = call
        self.arguments = arguments
        self.error = None
        self.start()

    def run(self):
        try:
            self.call(*self.arguments)
        except OSError as error:
            self.error = error

    def ends(self, seconds):
        """The call must work within `seconds` from now."""
        self.join(seconds)
        check(not self.is_alive(), f"{self.call.__name__}{self.arguments} hangs")
        equal(self.error, None, f"the error of {self.call.__name__}{self.arguments}")


# Two mounts that change one directory


class Changer:
    """Makes random changes of names in one directory, and keeps the time of the slowest."""

    def __init__(self, directory, names, seed):
        self.files = [directory / f"{names}{number}" for number in range(6)]
        self.directories = [directory / f"{names}-directory{number}" for number in range(2)]
        self.dice = random.Random(seed)
        self.slowest = (0, "")
        self.counts = {}

    def work(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            call, paths, expected = self.draw()
            start = time.monotonic()
            result = "OK"
            try:
                call(*paths)
            except OSError as error:
                result = errno.errorcode[error.errno]
                check(error.errno in expected, f"{call.__name__} {[str(path) for path in paths]}: {error}")
            self.slowest = max(self.slowest, (time.monotonic() - start, f"{call.__name__} {paths[0].name}: {result}"))
            name = f"{call.__name__} {result}"
            self.counts[name] = self.counts.get(name, 0) + 1

    def draw(self):
        """Returns a call, its arguments, and the errors it may end with."""
        file, other = self.dice.sample(self.files, 2)
        directory = self.dice.choice(self.directories)
        return self.dice.choice([
            (create, [file], (errno.EEXIST,)), (create, [file], (errno.EEXIST,)), (os.unlink, [file], (errno.ENOENT,)),
            (os.rename, [file, other], (errno.ENOENT,)), (os.stat, [file], (errno.ENOENT,)),
            (os.mkdir, [directory], (errno.EEXIST,)), (os.rmdir, [directory], (errno.ENOENT,)),
            (os.listdir, [file.parent], ())])


def listed(directory):
    """{name: (inode, mode, links)} of a directory, as a listing and as a look at each name show it."""
    names = sorted(os.listdir(directory))
    return {name: (state.st_ino, state.st_mode, state.st_nlink)
            for name in names for state in [os.lstat(directory / name)]}


@scenario(timeout=240, where="server")
def promises_contended(rig):
    """Two mounts make, rename and remove the same names and others in one directory: no call waits for long, no
    unexpected error, and both see the same directory at the end."""
    seconds = 60 if rig.full else 20
    server = rig.serve()
    here, there = rig.mount(server), rig.base / "other"
    there.mkdir()
    rig.mount(server, point=there)
    (here / "directory").mkdir()
    for point in (here, there):
        await_promises(rig, point)

    def change(point, names, seed):
        changer = Changer(point / "directory", names, seed)
        changer.work(seconds)
        slowest, what = changer.slowest
        note(f"{point.name}, {names}: slowest {slowest:.3f} s, {what}; {changer.counts}")
        check(slowest < 1 * rig.slowness, f"{what} took {slowest:.2f} s")

    processes.fork_all([lambda point=point, names=names, seed=seed: change(point, names, seed)
                        for seed, (point, names) in enumerate(
                            [(here, "same"), (there, "same"), (here, "mine"), (there, "yours")])])
    expected = listed(rig.export / "directory")
    for point in (here, there):
        found = listed(point / "directory")
        equal({name: state[1:] for name, state in found.items()},
              {name: state[1:] for name, state in expected.items()}, f"what {point.name} shows")
    equal(listed(here / "directory"), listed(there / "directory"), "what both mounts show")
    for point in (here, there):
        promises = status(rig, point)["promises"]
        note(f"{point.name}: {promises}")
        check(promises["breaks"] > 0, f"{point.name} was notified of no change")
        equal(promises["voids"], 0, f"how often {point.name} lost its promises")


# Holders that do not answer


def prepare(rig):
    (rig.export / "directory").mkdir()
    for number in range(8):
        (rig.export / "directory" / f"file{number}").touch()


def cache(rig, point):
    """Fills the caches of a mount: names, attributes, and the listing."""
    await_promises(rig, point)
    equal(len(os.listdir(point / "directory")), 8, "names")
    for number in range(8):
        os.stat(point / "directory" / f"file{number}")
    os.path.exists(point / "directory" / "made")


def check_recalled(point, seconds=RECALL):
    """A change that another mount was promised waits for it, but not for long; the next does not wait."""
    took = timed(os.chmod, point / "directory" / "file0", 0o600)
    note(f"the first change took {took:.2f} s")
    check(seconds / 2 < took < seconds + LATE, f"a change took {took:.2f} s, the recall time is {seconds} s")
    for what, took in (
            ("create", timed(create, point / "directory" / "made")),
            ("rename", timed(os.rename, point / "directory" / "file1", point / "directory" / "renamed")),
            ("unlink", timed(os.unlink, point / "directory" / "file2")),
            ("truncate", timed(os.truncate, point / "directory" / "file3", 100))):
        check(took < LATE, f"{what} took {took:.2f} s after the promises had ended")


def check_seen(point, within):
    """The changes of check_recalled() are seen within `within` seconds; 0: at the first look."""
    directory = point / "directory"
    seen_within(within, "chmod", lambda: os.stat(directory / "file0").st_mode & 0o777 == 0o600)
    seen_within(within, "create", lambda: os.path.exists(directory / "made"))
    seen_within(within, "rename, the new name", lambda: os.path.exists(directory / "renamed"))
    seen_within(within, "rename, the old name", lambda: not os.path.exists(directory / "file1"))
    seen_within(within, "unlink", lambda: not os.path.exists(directory / "file2"))
    seen_within(within, "size", lambda: os.stat(directory / "file3").st_size == 100)
    seen_within(within, "listing", lambda: len(os.listdir(directory)) == 8)


class StoppedMount:
    """Stops a mount until the end of the block."""

    def __init__(self, rig, point):
        self.pid = rig.mounted[point].pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        check(processes.wait_until(lambda: processes.stopped(self.pid), 10), "the mount does not stop")

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


@scenario(timeout=90, where="server")
def promises_stopped(rig):
    """A mount that is stopped delays what it was promised by at most the recall time, and then sees the change."""
    prepare(rig)
    there = rig.base / "other"
    there.mkdir()
    server = rig.serve(arguments=RECALLING)
    here = rig.mount(server)
    rig.mount(server, point=there)
    cache(rig, there)
    with StoppedMount(rig, there):
        check_recalled(here)
    check_seen(there, SOON)


@scenario(timeout=90, where="server")
def promises_killed(rig):
    """A mount that was killed delays what it was promised by at most the recall time."""
    prepare(rig)
    there = rig.base / "other"
    there.mkdir()
    server = rig.serve(arguments=RECALLING)
    here = rig.mount(server)
    rig.mount(server, point=there)
    cache(rig, there)
    process = rig.mounted.pop(there)
    process.kill()
    process.wait()
    check_recalled(here)
    rig.run(["umount", str(there)], cwd="/")


@scenario(timeout=90, where="server", loopback=True)
def promises_cut_off(rig):
    """A mount whose network is down delays what it was promised by at most the recall time, and then sees it."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting")
    prepare(rig)
    there = rig.base / "other"
    there.mkdir()
    server = rig.serve(arguments=RECALLING)
    here = rig.mount(server)
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, point=there)
        cache(rig, there)
        relay.stall()
        check_recalled(here)
        relay.release()
        check_seen(there, 0)
        rig.umount(there)


# A server that is killed


@scenario(timeout=120, where="server")
def promises_server_killed(rig):
    """The server is killed while a change waits for another mount: the change is made once, and the other sees it."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting")
    prepare(rig)
    there = rig.base / "other"
    there.mkdir()
    server = rig.serve(arguments=RECALLING)
    here = rig.mount(server)
    rig.mount(server, point=there)
    directory = here / "directory"
    changes = [(create, directory / "created"), (os.mkdir, directory / "made"), (os.unlink, directory / "file0"),
               (os.rename, directory / "file1", directory / "renamed"), (os.chmod, directory / "file2", 0o600)]
    for call, path, *rest in changes:
        await_promises(rig, there)
        for name in os.listdir(there / "directory"):
            os.stat(there / "directory" / name)
        os.path.exists(there / "directory" / path.name)
        with StoppedMount(rig, there):
            start = time.monotonic()
            change = InBackground(call, path, *rest)
            time.sleep(0.5)
            check(change.is_alive(), f"{call.__name__} did not wait for the other mount")
            server.stop(signal.SIGKILL)
            server.start()
            change.ends(30)
            note(f"{call.__name__}: {time.monotonic() - start:.2f} s, with a restart of the server")
        shown = there / "directory"
        equal(listed(shown).keys(), listed(rig.export / "directory").keys(), f"names after {call.__name__}")
    check(os.path.isfile(shown / "created") and os.path.isdir(shown / "made"), "names that were made are missing")
    check(os.path.exists(shown / "renamed"), "the new name is missing")
    check(not os.path.exists(shown / "file0") and not os.path.exists(shown / "file1"), "names that are gone are still listed")
    equal(os.stat(shown / "file2").st_mode & 0o777, 0o600, "the mode")


@scenario(timeout=300, where="server")
def promises_many(rig):
    """A change of a file that 10 mounts hold (100 in a full run) is seen by all when the call returns."""
    server = rig.serve()
    (rig.export / "directory").mkdir()
    (rig.export / "directory" / "file").touch()
    points = [rig.mount(server)]
    while len(points) < (100 if rig.full else 10):
        point = rig.base / f"mount{len(points)}"
        point.mkdir()
        points.append(rig.mount(server, point=point))
    for point in points:
        await_promises(rig, point)
    modes, renames = [], []
    for turn in range(20):
        names = [f"file{turn}" if turn else "file", f"file{turn + 1}"]
        for point in points:
            os.stat(point / "directory" / names[0])
        changer = points[turn * 7 % len(points)] / "directory"
        modes.append(timed(os.chmod, changer / names[0], 0o600 + turn))
        for point in points:
            mode = os.stat(point / "directory" / names[0]).st_mode & 0o777
            equal(mode, 0o600 + turn, f"mode, turn {turn}, {point.name}")
        renames.append(timed(os.rename, changer / names[0], changer / names[1]))
        for point in points:
            equal(os.listdir(point / "directory"), names[1:], f"names, turn {turn}, {point.name}")
            check(not os.path.exists(point / "directory" / names[0]), f"the old name, turn {turn}, {point.name}")
    for what, took in (("chmod", sorted(modes)), ("rename", sorted(renames))):
        note(f"{what} of a file that {len(points)} mounts hold: least {took[0] * 1000:.1f} ms, "
             f"median {took[10] * 1000:.1f} ms, most {took[-1] * 1000:.1f} ms")
        check(took[10] < LATE, f"half of the calls of {what} took more than {took[10]:.2f} s")


# Without promises


@scenario(timeout=120, where="server")
def promises_none(rig):
    """Mounts with nocallbacks, and all mounts of a server without promises, cache for the times of their options."""
    (rig.export / "file").touch()
    for arguments, options in (((), "actimeo=1,nocallbacks"), (("--promises", "0"), "actimeo=1")):
        server = rig.serve(arguments=arguments)
        there = rig.base / "other"
        there.mkdir(exist_ok=True)
        here = rig.mount(server, options)
        rig.mount(server, options, point=there)
        equal(status(rig, there)["caching"], "timed", f"caching with {options} {arguments}")
        os.stat(there / "file")
        before = os.stat(there / "file").st_mode & 0o777
        mode = before ^ 0o077
        with StoppedMount(rig, there):
            took = timed(os.chmod, here / "file", mode)
            check(took < LATE, f"a change took {took:.2f} s")
            equal(os.stat(there / "file").st_mode & 0o777, before, "the mode that the kernel keeps")
        seen_within(LATEST, "chmod", lambda: os.stat(there / "file").st_mode & 0o777 == mode)
        create(here / "made")
        seen_within(LATEST, "create", lambda: os.path.exists(there / "made"))
        os.unlink(here / "made")
        seen_within(LATEST, "unlink", lambda: not os.path.exists(there / "made"))
        for point in (here, there):
            rig.umount(point)
        server.stop()
