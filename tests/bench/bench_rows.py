"""The rows of scripts/bench: the measurements, on any mounted directory."""

import dataclasses
import io
import itertools
import json
import mmap
import os
import random
import subprocess
import tarfile
import time

import bench_peers

FILE_BYTES = 64 << 20
STREAM_BYTES = 256 << 20  # of the file that is read sequentially
ENTRIES = 2000  # of the listed directory
SMALL_FILES = 5000  # in the archive, fewer if --scale is below 1


@dataclasses.dataclass
class Result:
    figure: float
    cpu: dict  # microseconds per call, by part: program, client, server


@dataclasses.dataclass
class Row:
    name: str
    about: str
    unit: str
    count: int
    measure: object  # (system, count) -> Result
    pinned: bool = True
    caches: bool = False  # whether the kernel may cache attributes and names, and peers may answer writes early
    fresh: bool = False  # mount again before each round
    wait: int = 0  # seconds between `measure` on all systems, to fill their caches, and the round itself

    @property
    def more_is_better(self):
        return self.unit.endswith("/s")

    def run(self, system, count):
        return self.measure(system, count)


def probe_command(system, kind, count, pids):
    return [*system.probe(), kind, system.point_text(), str(count), *(str(pid) for pid in pids)]


def probe(kind, figure=lambda found: found["median"]):
    """A row of dafs_bench_probe. `figure` computes the row's number from the printed JSON."""

    def measure(system, count):
        parts = {name: pids for name, pids in system.processes().items() if pids}
        pids = [pid for part in parts.values() for pid in part]
        text = bench_peers.call(probe_command(system, kind, count, pids), system.place.log).stdout
        found = json.loads(text)
        times = found["cpu"]
        cpu = {"program": times[0]}
        rest = iter(times[1:])
        for name, members in parts.items():
            cpu[name] = sum(next(rest) for _ in members)
        return Result(figure(found), cpu)

    return measure


def megabytes_per_second(found):
    return (1 << 20) / found["median"]


def entries_per_second(found):
    return ENTRIES * 1e6 / found["median"]


def together(system, number, count):
    """Runs `number` probes at once. Returns their output, and their calls per second together, over the whole time."""
    command = [str(word) for word in probe_command(system, "read-4k", count, [])]
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/")
               for _ in range(number)]
    found = [json.loads(program.communicate(timeout=300)[0]) for program in running]
    took = max(each["to"] for each in found) - min(each["from"] for each in found)
    return found, count * number * 1e6 / took


def programs(number):
    """A row: the calls per second of `number` programs together."""

    def measure(system, count):
        parts = {name: pids for name, pids in system.processes().items() if pids}
        before = {name: cpu_of(pids) for name, pids in parts.items()}
        _, rate = together(system, number, count)
        cpu = {name: (cpu_of(pids) - before[name]) / (count * number) for name, pids in parts.items()}
        return Result(rate, cpu)

    return measure


def timed(system, command):
    start = time.monotonic()
    bench_peers.call(command, system.place.log)
    return time.monotonic() - start


def cpu_of(pids):
    """The processor time of `pids`, in microseconds."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as numbers:
                total += int(numbers.read().split()[0]) / 1e3
    return total


PAGE = mmap.mmap(-1, 4096)


def time_of_read(fd, offset):
    """The time to read a page with O_DIRECT, in microseconds."""
    start = time.perf_counter_ns()
    if os.preadv(fd, [PAGE], offset) != len(PAGE):
        raise RuntimeError(f"short read at {offset}")
    return (time.perf_counter_ns() - start) / 1e3


NUMBERS = itertools.count()  # no name is used twice, because a cache may have it


def stream(system, _count):
    """Megabytes per second of a program that writes a file in small pieces and closes it."""
    name = f"stream-{next(NUMBERS)}"
    seconds = timed(system, ["dd", "if=/dev/zero", f"of={system.point / name}", "bs=4k", f"count={FILE_BYTES >> 12}",
                             "status=none"])
    os.unlink(system.exported / name)
    return Result(FILE_BYTES / 1e6 / seconds, {})


def stream_read(system, _count):
    """Megabytes per second of a program that reads a file in small pieces. The client has not cached the file."""
    seconds = timed(system, ["dd", f"if={system.point / 'stream'}", "of=/dev/null", "bs=4k", "status=none"])
    return Result(STREAM_BYTES / 1e6 / seconds, {})


def ls(system, _count):
    """Entries per second of ls -l, which also requests the ACL of each entry if the file system has ACLs."""
    return Result(ENTRIES / timed(system, ["ls", "-l", system.point / "entries"]), {})


def untar(system, _count):
    name = f"untar-{next(NUMBERS)}"
    (system.point / name).mkdir()
    seconds = timed(system, ["tar", "-xf", system.place.base / "files.tar", "-C", system.point / name])
    bench_peers.remove_tree(system.exported / name)
    return Result(seconds, {})


def remove(system, _count):
    path = system.point / f"remove-{next(NUMBERS)}"
    path.mkdir()
    bench_peers.call(["tar", "-xf", system.place.base / "files.tar", "-C", path], system.place.log)
    return Result(timed(system, ["rm", "-rf", path]), {})


def clone(system, _count):
    name = f"clone-{next(NUMBERS)}"
    seconds = timed(system, ["git", "clone", "-q", "--no-hardlinks", system.place.base / "repository",
                             system.point / name])
    bench_peers.remove_tree(system.exported / name)
    return Result(seconds, {})


def worktree(system):
    """A clone of the repository. The mount itself has made it: git's index has the inode numbers that it shows."""
    path = system.point / f"worktree-{system.name}"
    if not path.exists():
        bench_peers.call(["git", "clone", "-q", "--no-hardlinks", system.place.base / "repository", path],
                         system.place.log)
    return path


def again(*command):
    """A row: the milliseconds of a program in the work tree, the second time."""

    def measure(system, _count):
        words = ["env", "-C", worktree(system), *command]
        timed(system, words)
        return Result(timed(system, words) * 1e3, {})

    return measure


ROWS = [
    Row("read-4k", "4 KiB random read, O_DIRECT", "us", 20000, probe("read-4k")),
    Row("read-1m", "1 MiB read, O_DIRECT", "MB/s", 1000, probe("read-1m", megabytes_per_second)),
    Row("write-4k", "4 KiB random write, O_DIRECT", "us", 10000, probe("write-4k")),
    Row("write-8k", "8 KiB random write, O_DIRECT", "us", 10000, probe("write-8k")),
    Row("write-1m", "1 MiB write, O_DIRECT", "MB/s", 1000, probe("write-1m", megabytes_per_second)),
    Row("stat", "stat, no caches", "us", 10000, probe("stat")),
    Row("stat-new", "stat of a file not seen before", "us", ENTRIES, probe("stat-new"), caches=True, fresh=True),
    Row("missing", "lookup of a name that is not there", "us", 10000, probe("missing"), caches=True),
    Row("create", "create and close an empty file", "us", 5000, probe("create"), caches=True),
    Row("create-1k", "create, write 1,000 bytes and close", "us", 3000, probe("create-1k"), caches=True),
    Row("append", "append 100 bytes to an open file", "us", 5000, probe("append"), caches=True),
    Row("open", "open and close", "us", 10000, probe("open"), caches=True),
    Row("mkdir", "mkdir and rmdir", "us", 3000, probe("mkdir"), caches=True),
    Row("rename", "rename", "us", 5000, probe("rename"), caches=True),
    Row("unlink", "unlink", "us", 5000, probe("unlink"), caches=True),
    # The same without caches: a call needs at least one request to the server for each name of its path.
    *(Row(f"{kind}-uncached", f"{about}, no caches", "us", 3000, probe(kind))
      for kind, about in (("missing", "lookup of a name that is not there"), ("create", "create and close an empty file"),
                          ("open", "open and close"), ("rename", "rename"), ("unlink", "unlink"))),
    # Several of them without pinning, as programs usually run.
    *(Row(f"{kind}-free", about, unit, count, probe(kind, *figure), pinned=False, caches=caches)
      for kind, about, unit, count, caches, *figure in (
          ("read-4k", "4 KiB random read, O_DIRECT", "us", 10000, False),
          ("read-1m", "1 MiB read, O_DIRECT", "MB/s", 1000, False, megabytes_per_second),
          ("write-4k", "4 KiB random write, O_DIRECT", "us", 10000, False),
          ("write-1m", "1 MiB write, O_DIRECT", "MB/s", 1000, False, megabytes_per_second),
          ("stat", "stat", "us", 5000, False), ("missing", "lookup of a missing name", "us", 5000, True),
          ("create", "create and close an empty file", "us", 3000, True), ("open", "open and close", "us", 5000, True),
          ("rename", "rename", "us", 3000, True), ("unlink", "unlink", "us", 3000, True),
          ("mkdir", "mkdir and rmdir", "us", 2000, True),
          ("append", "append 100 bytes to an open file", "us", 3000, True))),
    Row("list", f"entries and attributes of a directory of {ENTRIES:,}", "entries/s", 1,
        probe("list", entries_per_second), caches=True, fresh=True),
    *(Row(f"ls{end}", f"ls -l of a directory of {ENTRIES:,}, the program itself", "entries/s", 1, ls, pinned=not end,
          caches=True, fresh=True) for end in ("", "-free")),
    *(Row(f"read-{number}x4k", f"4 KiB random read, O_DIRECT, by {number} programs", "calls/s", 100000 // number,
          programs(number), pinned=False) for number in (4, 16)),
    Row("stream-4k", f"{FILE_BYTES >> 20} MiB written 4 KiB at a time, and closed", "MB/s", 1, stream, pinned=False,
        caches=True),
    Row("stream-read-4k", f"{STREAM_BYTES >> 20} MiB read 4 KiB at a time", "MB/s", 1, stream_read, pinned=False,
        caches=True, fresh=True),
    Row("untar", f"tar -x of {SMALL_FILES:,} small files", "s", 1, untar, pinned=False, caches=True, fresh=True),
    Row("remove", f"rm -rf of {SMALL_FILES:,} small files", "s", 1, remove, pinned=False, caches=True),
    Row("clone", "git clone of 2,000 files", "s", 1, clone, pinned=False, caches=True, fresh=True),
    # On files that were used a moment ago, and a minute ago.
    Row("git-status", "git status of 2,000 files, again", "ms", 1, again("git", "-c", "safe.directory=*", "status"),
        pinned=False, caches=True),
    Row("grep-again", "grep -r of 2,000 files, again", "ms", 1, again("grep", "-rc", "--exclude-dir=.git", "x", "."),
        pinned=False, caches=True),
    Row("stat-after-60s", "stat of 500 files, 61 s after the last time", "us", 500,
        probe("stat-new", lambda found: found["mean"]), caches=True, wait=61),
]


def fill(backing, base, names, scale):
    """Creates the files that the rows `names` need, in the backing directory and in `base`."""
    dice = random.Random(1)
    (backing / "file").write_bytes(dice.randbytes(FILE_BYTES))
    if "stream-read-4k" in names:
        with open(backing / "stream", "wb") as stream:
            for _ in range(STREAM_BYTES >> 24):
                stream.write(dice.randbytes(1 << 24))
    entries = backing / "entries"
    entries.mkdir()
    for number in range(ENTRIES):
        (entries / f"entry-{number:06}").touch()
    if {"untar", "remove"} & names:
        with tarfile.open(base / "files.tar", "w") as archive:
            for number in range(int(SMALL_FILES * min(scale, 1)) or 1):
                entry = tarfile.TarInfo(f"dir-{number // 100:02}/file-{number:05}")
                entry.size = dice.randrange(1, 8192)
                archive.addfile(entry, io.BytesIO(dice.randbytes(entry.size)))
    if {"clone", "git-status", "grep-again"} & names:
        make_repository(base / "repository", dice)


def make_repository(repository, dice):
    repository.mkdir()
    for number in range(2000):
        directory = repository / f"dir-{number // 50:02}"
        directory.mkdir(exist_ok=True)
        (directory / f"file-{number:04}").write_bytes(dice.randbytes(dice.randrange(1, 8192)))
    git = ["git", "-C", repository, "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    with open(os.devnull, "wb") as log:
        bench_peers.call(["git", "init", "-q", repository], log)
        bench_peers.call([*git, "add", "."], log)
        bench_peers.call([*git, "commit", "-q", "-m", "all"], log)
