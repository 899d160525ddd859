"""The latency of idle CPUs: limited while a mount is busy, and no longer."""

import os
import sys
import time

import pytest

import processes
from rig import check, scenario

DEVICE = "/dev/cpu_dma_latency"
LIMIT = 9  # microseconds; other programs hardly set this value
SECONDS = 5


def limit():
    """The kernel's current limit, in microseconds."""
    with open(DEVICE, "rb", buffering=0) as device:
        return int.from_bytes(device.read(4), sys.byteorder, signed=True)


def prepare():
    if not os.path.exists(DEVICE):
        pytest.skip(f"no {DEVICE}")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: no limit is set")
    if limit() <= LIMIT:
        pytest.skip("another program has set a limit")


def seen_while_busy(path):
    """Looks up missing names until LIMIT is seen; returns the limits seen meanwhile."""
    seen = set()
    end = time.monotonic() + SECONDS
    number = 0
    while LIMIT not in seen and time.monotonic() < end:
        for _ in range(100):
            number += 1
            os.path.exists(path / f"missing-{number}")
        seen.add(limit())
    return seen


@scenario(timeout=60, where="server", loopback=True, alone=True)
def idle_cpus(rig):
    """cpu_latency= and --cpu-latency: CPUs wake fast under load, and may sleep after it."""
    prepare()
    quiet = rig.serve(arguments=["--cpu-latency", "off"])
    rig.mount(quiet, f"cpu_latency={LIMIT}")
    check(LIMIT in seen_while_busy(rig.mnt), "the mount is busy, and the kernel has no limit")
    check(processes.wait_until(lambda: limit() > LIMIT, SECONDS), "the mount is quiet, and CPUs still may not sleep")
    rig.umount()
    rig.mount(quiet, "cpu_latency=off")
    check(LIMIT not in seen_while_busy(rig.mnt), "cpu_latency=off, yet CPUs may not sleep")
    rig.umount()
    quiet.stop()
    busy = rig.serve(arguments=["--cpu-latency", str(LIMIT)])
    rig.mount(busy, "cpu_latency=off")
    check(LIMIT in seen_while_busy(rig.mnt), "the server is busy, and the kernel has no limit")
    check(processes.wait_until(lambda: limit() > LIMIT, SECONDS), "the server is quiet, and CPUs still may not sleep")
