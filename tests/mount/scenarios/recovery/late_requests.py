"""Requests that a killed mount.dafs has sent, or had still to send, when the next one continues (docs/restart.md)."""

import fcntl
import json
import os
import signal
import subprocess
import threading
import time

import processes
import proxy
from actors import Actor
from rig import check, equal, scenario

from scenarios.recovery.failures import mount_through
from .restarting import need_survival, replace_killed

PAGE = 4096
SET_NS = 1_500_000_000_000_000_000


def kill_while_held(rig, relay, call):
    """Runs `call` in a thread, and kills mount.dafs as soon as its request is under way. Returns when `call` has."""
    relay.hold()
    caller = threading.Thread(target=call)
    caller.start()
    check(processes.wait_until(lambda: relay.held, 10 * rig.slowness, 0.01), "no request is under way")
    replace_killed(rig)
    caller.join(30 * rig.slowness)
    check(not caller.is_alive(), "the call does not end")


def let_arrive(rig, relay):
    """The held bytes reach the server, unless it has ended their connections."""
    relay.let_arrive()
    check(processes.wait_until(lambda: not relay.held, 10 * rig.slowness, 0.01), "bytes are still held")
    time.sleep(0.3)  # the server executes them


@scenario(timeout=120, where="server")
def restart_killed_late_requests(rig):
    """A write and an unlock of a killed mount.dafs are not executed after what its programs do next."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, "guardian,nowrite_behind,nodelegations")
        elsewhere = rig.local / "elsewhere"
        elsewhere.mkdir()
        rig.mount(server, point=elsewhere)
        path = rig.mnt / "file"
        path.write_bytes(b"-" * PAGE)
        file = os.open(path, os.O_RDWR)
        kill_while_held(rig, relay, lambda: os.pwrite(file, b"a" * PAGE, 0))
        equal(os.pwrite(file, b"b" * PAGE, 0), PAGE, "bytes written by the next program")
        os.utime(path, ns=(SET_NS, SET_NS))
        let_arrive(rig, relay)
        check((rig.export / "file").read_bytes() == b"b" * PAGE, "the earlier write came after the later one")
        equal(os.stat(rig.export / "file").st_mtime_ns, SET_NS, "the mtime")

        fcntl.lockf(file, fcntl.LOCK_EX)
        kill_while_held(rig, relay, lambda: fcntl.lockf(file, fcntl.LOCK_UN))
        fcntl.lockf(file, fcntl.LOCK_EX)
        let_arrive(rig, relay)
        other = Actor()
        other.must("open", "f", str(elsewhere / "file"))
        other.refused("record", "f", "W")
        os.close(file)
        other.must("record", "f", "W")
        other.end()
        rig.umount(elsewhere)
        rig.umount()


def opens_of(rig, server, name):
    """The opens of the file that the server lists. None: it does not answer yet."""
    done = subprocess.run([rig.bin / "dafsctl", "server", "opens", "--json", "--socket", server.socket],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30,
                          check=False)
    if done.returncode != 0:
        return None
    return [one for one in json.loads(done.stdout)["opens"] if one["file"].endswith(f"/{name}")]


@scenario(timeout=120, where="server")
def restart_killed_twice_closes(rig):
    """A file that was closed while the server was away is closed there in the end, though mount.dafs is killed twice."""
    need_survival()
    rig.expect(".*continues after mount.dafs was killed.*", ".*session.*", ".*no session.*", ".*reclaimed.*")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
    rig.mount(server, "guardian,nodelegations")
    (rig.mnt / "file").write_text("content")
    file = os.open(rig.mnt / "file", os.O_RDONLY)
    kept = os.open(rig.mnt / "kept", os.O_CREAT | os.O_RDWR)
    equal(len(opens_of(rig, server, "file")), 1, "opens of the file")
    server.stop(signal.SIGKILL)
    os.close(file)
    time.sleep(0.2)  # the kernel has sent RELEASE
    replace_killed(rig)
    time.sleep(0.5)  # the next program serves, and cannot close anything
    replace_killed(rig)
    server.start()
    os.fstat(kept)
    check(processes.wait_until(lambda: opens_of(rig, server, "kept") not in (None, []), 20 * rig.slowness, 0.1),
          "the open file was not reclaimed")
    check(processes.wait_until(lambda: opens_of(rig, server, "file") == [], 5 * rig.slowness, 0.1),
          "the closed file stays open at the server")
    os.close(kept)
    rig.umount()
