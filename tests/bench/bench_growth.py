"""scripts/bench --growth: the cost of a call on mount.dafs as one quantity grows, and the memory of both daemons.

Each series reports for each size the median time of a call, the processor time of client and server for it, and the
memory (resident set) of both. Sizes grow by factors, so that growth faster than the logarithm of the size is visible.
"""

import os
import random

import bench_peers
import bench_rows

SERIES = {}
SERVER_OPTIONS = ("--max-sessions", "1100", "--max-sessions-per-address", "1100")


def series(function):
    SERIES[function.__name__.replace("_", "-")] = function
    return function


def resident(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm", encoding="ascii") as numbers:
            total += int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def memory(system):
    return {part: resident(pids) for part, pids in system.processes().items()}


def measured(system, row, count):
    """The median time and CPU time of a row of the probe."""
    result = bench_rows.probe(row)(system, count)
    return {row: result.figure, "cpu": result.cpu}


def each(sizes, limit):
    return [size for size in sizes if size <= limit]


@series
def files_in_directory(system, limit):
    """Files in a directory. Each was listed with its attributes, so the mount has an inode for each."""
    entries = system.exported / "entries"
    made = len(os.listdir(entries))
    for size in each((10, 100, 1000, 10_000, 100_000, 1_000_000), limit or 100_000):
        if size < made:
            continue  # the directory already has the entries of the other rows
        for number in range(made, size):
            (entries / f"entry-{number:06}").touch()
        made = size
        system.remount()
        before = memory(system)
        listing = bench_rows.probe("list")(system, 1)
        found = {"size": size, "list one entry": listing.figure / size, "memory": memory(system)}
        found["bytes per inode"] = {part: (found["memory"][part] - before[part]) / size for part in before}
        for row in ("stat-new", "missing"):
            system.remount()
            found |= measured(system, row, min(size, 2000))
        yield found


@series
def open_files(system, limit):
    """Files that one program has open, each once. The probe opens and closes one more."""
    many = system.exported / "many"
    many.mkdir()
    held = []
    before = memory(system)
    try:
        for size in each((1, 10, 100, 1000, 4000, 8000), limit or 8000):
            for number in range(len(held), size):
                (many / f"file-{number}").touch()
                held.append(os.open(system.point / "many" / f"file-{number}", os.O_RDONLY))
            found = {"size": size, "memory": memory(system)} | measured(system, "open", 2000)
            found["bytes per open file"] = {part: (found["memory"][part] - before[part]) / size for part in before}
            yield found
    finally:
        for fd in held:
            os.close(fd)


@series
def programs(system, limit):
    """Programs that read 4 KiB at random places at the same time."""
    for size in each((1, 4, 16, 64, 256), limit or 256):
        # Enough calls that the programs run at the same time for most of the measurement.
        found, rate = bench_rows.together(system, size, max(100000 // size, 1000))
        yield {"size": size, "read-4k": max(one["median"] for one in found), "calls per second": rate,
               "memory": memory(system)}


@series
def sessions(system, limit):
    """Sessions of the server, 16 for each mount. The probe has its own session."""
    others = []
    before = memory(system)
    try:
        for size in each((1, 16, 64, 256, 1000), limit or 256):
            while len(others) * 16 < size - 1:
                other = bench_peers.Dafs(system.place, "nconnect=16,buffers=4", name=f"dafs-{len(others)}")
                other.port = system.port
                others.append(other)
                other.mount(True)
            figures = {row: measured(system, row, 2000)[row] for row in ("missing", "read-4k")}
            sessions_now = 1 + 16 * len(others)
            now = memory(system)
            yield {"size": sessions_now, "memory": now, "server bytes per session":
                   (now["server"] - before["server"]) / sessions_now} | figures
    finally:
        for other in others:
            other.stop()


@series
def file_size(system, limit):
    """Bytes of a sparse file, of which 4 KiB are read at random places with O_DIRECT."""
    path = system.exported / "sparse"
    for size in each((1 << 20, 1 << 30, 10 << 30, 100 << 30), limit or (100 << 30)):
        with open(path, "wb") as file:
            file.truncate(size)
        dice = random.Random(1)
        times = []
        before = {part: bench_rows.cpu_of(pids) for part, pids in system.processes().items()}
        fd = os.open(system.point / "sparse", os.O_RDONLY | os.O_DIRECT)
        try:
            times = [bench_rows.time_of_read(fd, dice.randrange(size // 4096) * 4096) for _ in range(2000)]
        finally:
            os.close(fd)
        spent = {part: bench_rows.cpu_of(pids) for part, pids in system.processes().items()}
        yield {"size": size, "read-4k": sorted(times)[len(times) // 2], "memory": memory(system),
               "cpu": {part: (spent[part] - before[part]) / len(times) for part in before}}


def show(found):
    parts = [f"{found['size']:>14,}"]
    for name, value in found.items():
        if name == "memory":
            parts.append("memory " + " ".join(f"{part} {size / (1 << 20):.1f} MiB" for part, size in value.items()))
        elif isinstance(value, dict):
            parts.append(name + " " + " ".join(f"{part} {one:.1f}" for part, one in value.items()))
        elif name != "size":
            parts.append(f"{name} {value:,.1f}")
    print("   ".join(parts), flush=True)


def run(system, names, limit):
    """Runs the series `names`. Returns their results."""
    report = {}
    for name in names:
        print(f"{name}: {SERIES[name].__doc__.splitlines()[0]}")
        system.mount(True)
        system.pin(name not in ("programs", "sessions"))
        try:
            report[name] = []
            for found in SERIES[name](system, limit):
                show(found)
                report[name].append(found)
        finally:
            system.umount()
    return report
