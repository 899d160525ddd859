"""RDMA devices that fail under a mount: no program notices. Needs a device: scripts/rdma-vm has some."""

import contextlib
import json
import re
import subprocess
import time

import pytest

import processes
from changes import Load
from rig import Failure, check, note, scenario
from .failures import check_loads, drawn_moments, mount_twice


def network_device(address):
    words = subprocess.run(["ip", "-o", "addr", "show", "to", address], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    return words[1]


def run(*words):
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


@contextlib.contextmanager
def cut(network, address):
    """Cuts the device off from `network` inside the block, and ends its connections."""
    if rdma_device(network).startswith("siw"):
        # Not by its link: siw of Linux 6.1 then walks a list of connections while they are removed, and the kernel
        # oopses.
        run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "loss", "100%")
        try:
            run("ss", "--kill", "--tcp", "src", address)
            yield
        finally:
            run("tc", "qdisc", "del", "dev", "lo", "root")
    else:
        run("ip", "link", "set", network, "down")
        try:
            yield
        finally:
            run("ip", "link", "set", network, "up")


@scenario(timeout=1800, where="server")
def recover_link(rig):
    """An RDMA device is cut off for a while, often, under a mixed load on two mounts: no error, the model's end."""
    if rig.server_proto != "rdma":
        pytest.skip("about RDMA devices")
    rig.expect("session with .* lost", "client .* lost: ", "no session for", "new session",
               "listening on", "connection from")
    network = network_device(rig.address)
    cuts = 40 if rig.full else 8
    seed, moments = drawn_moments()
    _, other = mount_twice(rig)
    loads = [Load(str(point / f"load{i}"), seed + i, slow=0.001).start()
             for i, point in enumerate((rig.mnt, other) * 2)]
    for number in range(cuts):
        time.sleep(moments.uniform(0.1, 1.5))
        before = [load.changes for load in loads]
        with cut(network, rig.address):
            time.sleep(moments.choice((0, 0.3, 3)))
        if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                for load, count in zip(loads, before)), 90 * rig.slowness):
            raise Failure(f"cut {number + 1}: no change in 90 s: {[load.changes for load in loads]}")
    check_loads(loads, rig.export, 60 * rig.slowness)
    lost = (rig.logs / "mount.dafs.log").read_text(errors="replace").count("lost:")
    check(lost > 0, "no session was cut off")
    note(f"{lost} sessions lost")
    rig.umount(other)


def rdma_device(network):
    """The RDMA device over a network device: its name and kind."""
    links = json.loads(subprocess.run(["rdma", "-j", "link", "show"], stdout=subprocess.PIPE, check=True).stdout)
    for link in links:
        if link.get("netdev") == network:
            return link["ifname"]
    pytest.skip(f"no RDMA device over {network}")


@scenario(timeout=900, where="server")
def recover_device(rig):
    """An RDMA device is removed and added again: the mount waits and continues, the server listens on it again."""
    if rig.server_proto != "rdma" or "proto=rdma" not in rig.options:
        pytest.skip("about RDMA devices")
    rig.expect("session with .* lost", "no session for", "new session", "listening on", "no answer for")
    network = network_device(rig.address)
    device = rdma_device(network)
    kind = next((kind for kind in ("siw", "rxe") if device.startswith(kind)), None)
    if kind is None:
        pytest.skip(f"{device} is not a software device")
    rig.mount(rig.serve())
    for number in range(3):
        (rig.mnt / "file").write_text(str(number), encoding="ascii")
        # Returns after the last program has closed the device.
        subprocess.run(["rdma", "link", "delete", device], check=True, timeout=30 * rig.slowness)
        try:
            waiting = subprocess.Popen(["cat", str(rig.mnt / "file")], stdout=subprocess.PIPE)
            time.sleep(1)
            (rig.export / "file").write_text(f"{number} again", encoding="ascii")
        finally:
            subprocess.run(["rdma", "link", "add", device, "type", kind, "netdev", network], check=True)
        said, _ = waiting.communicate(timeout=60 * rig.slowness)
        if waiting.returncode != 0 or said not in (str(number).encode(), f"{number} again".encode()):
            raise Failure(f"read over the removal: {said!r}, status {waiting.returncode}")
        fresh = rig.mnt / f"new{number}"
        fresh.write_text("x", encoding="ascii")
        if (rig.export / f"new{number}").read_text(encoding="ascii") != "x":
            raise Failure(f"{fresh.name} did not reach the server")
    log = "".join(path.read_text(errors="replace") for path in rig.logs.glob("dafsd*.log"))
    note(f"{log.count('the RDMA device was removed')} removals noticed by the server")
    if not re.search(r"listening on .* again", log):
        raise Failure("the server's log does not say that it listens again")
