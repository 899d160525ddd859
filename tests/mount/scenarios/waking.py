"""How fast idle CPUs wake: asked of the kernel while a mount is busy, and for no longer."""

import os
import sys
import time

import processes
from rig import Skip, check, scenario

DEVICE = "/dev/cpu_dma_latency"
LIMIT = 9  # microseconds; nobody else is likely to ask for this
SECONDS = 5


def limit():
    """The kernel's limit of now, in microseconds."""
    with open(DEVICE, "rb", buffering=0) as device:
        return int.from_bytes(device.read(4), sys.byteorder, signed=True)


def prepare():
    if not os.path.exists(DEVICE):
        raise Skip(f"no {DEVICE}")
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one CPU: nothing is asked for")
    if limit() <= LIMIT:
        raise Skip("somebody else asks for CPUs that wake fast")


def seen_while_busy(path):
    """The limits seen while names that are not there are looked up, until LIMIT is one of them."""
    seen = set()
    end = time.monotonic() + SECONDS
    number = 0
    while LIMIT not in seen and time.monotonic() < end:
        for _ in range(100):
            number += 1
            os.path.exists(path / f"missing-{number}")
        seen.add(limit())
    return seen


@scenario(timeout=60, where="server", loopback=True)
def idle_cpus(rig):
    """cpu_latency= and --cpu-latency: CPUs wake fast while there is much to do, and sleep when it is over."""
    prepare()
    quiet = rig.serve(arguments=["--cpu-latency", "off"])
    rig.mount(quiet, f"cpu_latency={LIMIT}")
    check(LIMIT in seen_while_busy(rig.mnt), "the mount is busy, and nothing is asked of the kernel")
    check(processes.wait_until(lambda: limit() > LIMIT, SECONDS), "the mount is quiet, and CPUs still may not sleep")
    rig.umount()
    rig.mount(quiet, "cpu_latency=off")
    check(LIMIT not in seen_while_busy(rig.mnt), "cpu_latency=off, yet CPUs may not sleep")
    rig.umount()
    quiet.stop()
    busy = rig.serve(arguments=["--cpu-latency", str(LIMIT)])
    rig.mount(busy, "cpu_latency=off")
    check(LIMIT in seen_while_busy(rig.mnt), "the server is busy, and nothing is asked of the kernel")
    check(processes.wait_until(lambda: limit() > LIMIT, SECONDS), "the server is quiet, and CPUs still may not sleep")
