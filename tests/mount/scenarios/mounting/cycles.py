"""Repeated mounts leave nothing in the server."""

import os

import processes
from rig import check, equal, scenario


def cycle(rig, count):
    """Mounts, uses and unmounts one server `count` times; its usage must not grow after the first mounts."""
    server = rig.serve()
    (rig.export / "file").write_text("x" * 10_000)
    early = None
    for number in range(count):
        rig.mount(server, daemon=True)
        equal((rig.mnt / "file").read_text(), "x" * 10_000, "the file")
        (rig.mnt / f"new{number % 10}").write_text(str(number))
        (rig.mnt / "dir").mkdir()
        (rig.mnt / "dir").rmdir()
        rig.umount()
        check(processes.wait_until(lambda: not rig.daemons(), 10 * rig.slowness), "mount.dafs outlives its mount")
        if number == min(count // 2, 50):
            early = settled(rig, server, None)
    late = settled(rig, server, early)
    print(f"after {min(count // 2, 50)} mounts {early}, after {count} {late}")
    for what, slack in {"threads": 0, "descriptors": 8}.items():  # the server keeps some files open
        check(late[what] <= early[what] + slack, f"{what}: {early[what]} early on, {late[what]} after {count} mounts")
    allowed = 4096 + 8 * count  # KiB; malloc's arenas vary, but a leaked buffer or session takes more than 8 KiB
    check(late["resident"] - early["resident"] < allowed,
          f"resident KiB: {early['resident']} early on, {late['resident']} after {count} mounts")


def settled(rig, server, bound):
    """Returns the server's usage after its sessions end: when it stops changing, or falls to `bound`."""
    usage = server.usage()
    for _ in range(50):
        processes.wait_until(lambda: False, 0.1 * rig.slowness)
        previous, usage = usage, server.usage()
        same = all(usage[what] == previous[what] for what in ("threads", "descriptors"))
        low = bound is None or all(usage[what] <= bound[what] for what in ("threads", "descriptors"))
        if same and low:
            break
    return usage


@scenario(timeout=180, where="server")
def remounts(rig):
    """Thirty mounts and unmounts (or DAFS_TEST_MOUNTS) of a running server leave nothing behind."""
    cycle(rig, int(os.environ.get("DAFS_TEST_MOUNTS", "30")))


@scenario(timeout=1500, where="server", long_only=True)
def soak(rig):
    """A thousand mounts and unmounts of a running server leave nothing behind."""
    cycle(rig, 1000)
