"""RDMA devices that fail under a mount: no program notices. Needs a device: scripts/rdma-vm has some."""

import random
import subprocess
import time

import processes
from changes import Load
from rig import Failure, Skip, note, scenario
from scenarios.recovery import check_loads


def network_device(address):
    words = subprocess.run(["ip", "-o", "addr", "show", "to", address], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    return words[1]


def set_link(device, state):
    subprocess.run(["ip", "link", "set", device, state], check=True)


@scenario(timeout=1800, where="server")
def recover_link(rig):
    """The link of an RDMA device goes down and up under a mixed load on two mounts: no error, the model's end."""
    if rig.server_proto != "rdma":
        raise Skip("about RDMA devices")
    rig.expect("session with .* lost", "no session for", "new session", "listening on", "connection from")
    device = network_device(rig.address)
    cuts = 40 if rig.full else 8
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    moments = random.Random(seed)
    server = rig.serve()
    other = rig.local / "other"
    other.mkdir()
    rig.mount(server)
    rig.mount(server, point=other)
    loads = [Load(str(point / f"load{i}"), seed + i, slow=0.001).start()
             for i, point in enumerate((rig.mnt, other) * 2)]
    try:
        for number in range(cuts):
            time.sleep(moments.uniform(0.1, 1.5))
            before = [load.changes for load in loads]
            set_link(device, "down")
            time.sleep(moments.choice((0, 0.3, 3)))
            set_link(device, "up")
            if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                    for load, count in zip(loads, before)), 90 * rig.slowness):
                raise Failure(f"cut {number + 1}: no change in 90 s: {[load.changes for load in loads]}")
    finally:
        set_link(device, "up")
    check_loads(loads, rig.export, 60 * rig.slowness)
    lost = (rig.logs / "mount.dafs.log").read_text(errors="replace").count("lost:")
    note(f"{lost} sessions lost")
    rig.umount(other)
