"""Directories that are very large, or change while they are listed."""

import errno
import os
import random

import processes
from rig import check, equal, errno_of, scenario

HUNDRED_BYTES = "x" * 90


def _make(directory, names):
    """Creates empty files."""
    base = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=base))
    os.close(base)


def _resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))  # KiB


@scenario(timeout=3000, where="mount")
def huge(rig):
    """A directory of 1,000,000 entries (20,000 in a quick run), listed in bounded memory on both sides, and removed."""
    count, ours = (1_000_000, 100_000) if rig.full else (20_000, 4_000)
    big = rig.root / "big"
    big.mkdir()
    names = [f"{number:07}-{HUNDRED_BYTES}" for number in range(count)]
    makers = [lambda part=part: _make(big, names[part:ours:4]) for part in range(4)]
    makers += [lambda part=part: _make(rig.behind / "big", names[ours + part::2]) for part in range(2)]
    processes.fork_all(makers)
    watched = {"mount.dafs": rig.mounted[rig.root].pid, "dafsd": rig.servers[0].process.pid}
    sum(1 for _ in zip(range(1000), os.scandir(big)))  # so that one-time allocations of a listing are made
    before = {name: _resident(pid) for name, pid in watched.items()}
    seen = bytearray(count)
    for entry in os.scandir(big):
        number = int(entry.name[:7])
        check(not seen[number], f"{entry.name} is listed twice")
        seen[number] = 1
    equal(sum(seen), count, "entries listed")
    after = {name: _resident(pid) for name, pid in watched.items()}
    print(f"resident KiB before the listing {before}, after it {after}", flush=True)
    most = (16 if rig.slowness == 1 else 64) << 10  # a sanitizer keeps freed memory for a while
    for name in watched:
        check(after[name] - before[name] < most, f"{name} grows by {after[name] - before[name]} KiB for a listing")
    for number in (0, ours - 1, ours, count - 1):
        equal(os.stat(big / names[number]).st_size, 0, "size of an entry")
    equal(errno_of(os.rmdir, big), errno.ENOTEMPTY, "rmdir")
    rig.run(["rm", "-rf", big], timeout=1500)
    equal(errno_of(os.stat, big), errno.ENOENT, "the directory after rm -rf")
    check(not (rig.behind / "big").exists(), "the exported directory after rm -rf")


def _come_and_go(directory, seed, stop):
    """Makes, renames and removes names that the test does not count, until `stop` exists."""
    dice = random.Random(seed)
    mine = []
    number = 0
    while not stop.exists():
        for _ in range(20):
            if len(mine) < 200 and dice.random() < 0.55:
                mine.append(f"guest-{seed}-{number}")
                os.close(os.open(directory / mine[-1], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            elif mine and dice.random() < 0.5:
                old = mine.pop(dice.randrange(len(mine)))
                mine.append(f"guest-{seed}-{number}")
                os.rename(directory / old, directory / mine[-1])
            elif mine:
                os.unlink(directory / mine.pop(dice.randrange(len(mine))))
            number += 1


@scenario(timeout=300, where="mount", variants=True)
def moving(rig):
    """Listings while others add, rename and remove names, here and on the server, list each name that stays once."""
    count, rounds = (20_000, 60) if rig.full else (2_000, 9)
    where = rig.root / "moving"
    where.mkdir()
    _make(where, (f"stays-{number}" for number in range(count)))
    stop = rig.local / "stop"
    guests = []
    for seed, place in enumerate((where, where, rig.behind / "moving")):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _come_and_go(place, seed, stop)
                status = 0
            finally:
                os._exit(status)
        guests.append(child)
    try:
        for turn in range(rounds):
            with os.scandir(where) as listing:
                found = [entry.name for entry in listing]
            staying = [name for name in found if name.startswith("stays-")]
            equal(len(set(staying)), count, f"listing {turn}: names that stay")
            equal(len(staying), count, f"listing {turn}: names that stay, each once")
            if turn % 3 == 0:  # with the attributes of each
                text = rig.run(["sh", "-c", "ls -l moving 2>/dev/null | grep -c ' stays-'"], status=None)[1]
                equal(int(text), count, f"ls -l {turn}: names that stay")
    finally:
        stop.touch()
        ends = [os.waitpid(child, 0)[1] for child in guests]
    equal(ends, [0, 0, 0], "exit status of the processes that add and remove")
