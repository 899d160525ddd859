"""scripts/bench --paper and --gzip: the two experiments of "The Direct Access File System" (FAST 2003, section 5).

--paper: reads blocks of 2 KiB to 1 MiB of a file that the server has in memory, one at a time and 32 at once. Reports
the throughput, and the client's processor time per read (of the program, and of the mount's daemon if there is one).
Compares libdafs with registered memory, system calls with O_DIRECT on the mount (the kernel's AIO), and libnfs.

--gzip: a compressor with read-ahead and write-behind: one for the whole input, and two for half of it each. Reports the
time, and the processor time of all clients. Unpacks the output and compares it with the input. Compares libdafs, the
mount, and the peers that mount: libnfs cannot send writes of such blocks over NFSv4.
"""

import dataclasses
import json
import random
import statistics
import subprocess

import bench_remote

BLOCKS = [1 << power for power in range(11, 21)]
GZIP_BYTES = 64 << 20
MODES = {"sync": "one read at a time", "async": "32 reads at once"}


@dataclasses.dataclass
class Way:
    """A way of doing I/O: `system` serves it, `program` does it."""

    name: str
    system: object
    program: str  # of block_io.h: posix, dafs or libnfs
    mounted: bool = True

    def target(self):
        if self.program == "dafs":
            return f"127.0.0.1:{self.system.port}/bench"
        return str(self.system.point_text())

    def parts(self):
        """The processes that serve it, by part."""
        found = {name: pids for name, pids in self.system.processes().items() if pids}
        if not self.mounted:
            found.pop("client", None)
        return found

    def run(self, program, before, after, jobs=1):
        """Runs `jobs` programs at once. Returns their JSON, and each part's processor time as the first measured it."""
        parts = self.parts()
        pids = [str(pid) for members in parts.values() for pid in members]
        running = []
        for job in range(jobs):
            words = [*before, self.target(), *(word.format(job=job) for word in after), *pids]
            running.append(subprocess.Popen([str(self.system.place.bin / f"dafs_{program}_{self.program}"), *words],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=self.system.place.log, text=True, cwd="/"))
        found = []
        for process in running:
            text = process.communicate(timeout=600)[0]
            if process.returncode:
                raise RuntimeError(f"{self.name}: dafs_{program}_{self.program} failed")
            found.append(json.loads(text))
        cpu = {"program": sum(one["cpu"][0] for one in found)}
        rest = iter(found[0]["cpu"][1:])
        for name, members in parts.items():
            cpu[name] = sum(next(rest) for _ in members)
        return found, cpu


def ways_of(dafs, peers, programs):
    """The ways whose program was built."""
    ways = [Way("libdafs", dafs, "dafs", mounted=False), Way("mount", dafs, "posix")]
    for peer in peers:
        program = "libnfs" if peer.name == "libnfs" else "posix"
        ways.append(Way(peer.name, peer, program, mounted=program == "posix"))
    built = []
    for way in ways:
        program = f"dafs_{programs}_{way.program}"
        if (dafs.place.bin / program).exists():
            built.append(way)
        else:
            print(f"{way.name}: left out: {program} was not built")
    return built


def start(place, classes):
    """Starts the peers that are available."""
    started = []
    for kind in classes:
        peer = kind(place)
        why = peer.start()
        if why:
            print(f"{peer.name}: left out: {why}")
            peer.stop()
            continue
        started.append(peer)
    return started


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def mount_all(ways):
    for system in {id(way.system): way.system for way in ways if way.mounted}.values():
        system.mount(True)


def umount_all(ways):
    for way in ways:
        way.system.umount()


# ---- Reads of blocks -----------------------------------------------------------------------------


def read_blocks(ways, mode, block, rounds, seconds):
    found = {way.name: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 else ways[::-1]:
            results, cpu = way.run("paper", [mode], [str(block), str(seconds)])
            found[way.name].append((results[0]["mbs"], cpu["program"] + cpu.get("client", 0), cpu.get("server", 0)))
    return {name: {"mbs": summary([one[0] for one in each]), "client": summary([one[1] for one in each]),
                   "server": summary([one[2] for one in each])} for name, each in found.items()}


def paper(dafs, place, rounds, seconds):
    peers = start(place, [bench_remote.Libnfs])
    rows = []
    try:
        ways = ways_of(dafs, peers, "paper")
        mount_all(ways)
        for mode, about in MODES.items():
            print(f"{about}: MB/s, and us of the client's processor time a read (of the server's)")
            print(f"{'block':>10}" + "".join(f"{way.name:>32}" for way in ways))
            for block in BLOCKS:
                results = read_blocks(ways, mode, block, rounds, seconds)
                cells = "".join(f"{one['mbs']['median']:>12,.0f}{one['client']['median']:>11,.1f}"
                                f"{'(' + format(one['server']['median'], ',.1f') + ')':>9}" for one in results.values())
                print(f"{block >> 10:>6} KiB{cells}", flush=True)
                rows.append({"mode": mode, "block": block, "results": results})
        umount_all(ways)
    finally:
        for peer in peers:
            peer.stop()
    return rows


# ---- gzip ----------------------------------------------------------------------------------------


def make_input(directory):
    """Creates text that gzip compresses to about a third: `whole`, and its halves `half-0` and `half-1`."""
    dice = random.Random(1)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))).encode() for _ in range(5000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    piece = 1 << 20
    pieces = [b" ".join(dice.choices(words, weights, k=piece // 3))[:piece] for _ in range(8)]
    whole = b"".join(pieces[number % len(pieces)] for number in range(GZIP_BYTES // piece))
    (directory / "whole").write_bytes(whole)
    for half in range(2):
        (directory / f"half-{half}").write_bytes(whole[half * GZIP_BYTES // 2:(half + 1) * GZIP_BYTES // 2])


def check_output(directory, source, packed):
    """Checks the output with gzip and zcat."""
    subprocess.run(["gzip", "-t", "-c"], stdin=(directory / packed).open("rb"), check=True)
    with subprocess.Popen(["zcat", str(directory / packed)], stdout=subprocess.PIPE) as unpacked:
        subprocess.run(["cmp", "-", str(directory / source)], stdin=unpacked.stdout, check=True)
    if unpacked.returncode:
        raise RuntimeError(f"zcat {packed} failed")


def compress(way, jobs, threads):
    """Returns the seconds until all have ended, and the processor time of the clients."""
    names = ("whole", "whole.gz") if jobs == 1 else ("half-{job}", "half-{job}.gz")
    results, cpu = way.run("gzip", ["-j", str(threads)], names, jobs)
    for job in range(jobs):
        source, packed = (name.format(job=job) for name in names)
        check_output(way.system.exported, source, packed)
        (way.system.exported / packed).unlink()
    return max(one["seconds"] for one in results), (cpu["program"] + cpu.get("client", 0)) / 1e6


def gzip(dafs, place, rounds, peer_classes):
    make_input(place.backing)
    peers = start(place, peer_classes)
    rows = []
    try:
        ways = ways_of(dafs, peers, "gzip")
        mount_all(ways)
        for about, jobs, threads in (("one gzip", 1, 1), ("one gzip of two threads", 1, 2),
                                     ("two at once, half each", 2, 1)):
            found = {way.name: [] for way in ways}
            for number in range(rounds):
                for way in ways if number % 2 else ways[::-1]:
                    found[way.name].append(compress(way, jobs, threads))
            print(f"{about}, {GZIP_BYTES >> 20} MiB:")
            results = {}
            for name, each in found.items():
                results[name] = {"seconds": summary([one[0] for one in each]),
                                 "client": summary([one[1] for one in each])}
                seconds = results[name]["seconds"]
                print(f"    {name:<12} {seconds['median']:6.2f} s  ({seconds['least']:.2f} to {seconds['most']:.2f})"
                      f"   CPU of the clients {results[name]['client']['median']:6.2f} s", flush=True)
            rows.append({"about": about, "results": results})
        umount_all(ways)
    finally:
        for peer in peers:
            peer.stop()
    return rows
