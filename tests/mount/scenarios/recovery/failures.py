"""Connections and servers that fail: no program notices, and every change is made exactly once."""

import errno
import hashlib
import json
import mmap
import os
import random
import secrets
import signal
import subprocess
import sys
import time

import processes
import proxy
from changes import Load, counter_differences
from scenarios.files.ranges import PROGRAM, model_arguments
from rig import Failure, Server, check, equal, errno_of, note, scenario

MIB = 1 << 20


def mount_through(rig, relay, server, options="", point=None):
    """Mounts the export through a proxy."""

    class Behind:
        port = relay.port

    return rig.mount(Behind, options, point=point)


def drawn_moments():
    """Returns the seed, which is logged, and the generator of random moments made from it."""
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    return seed, random.Random(seed)


def mount_twice(rig):
    """Returns the server and the second of two mounts of its export; the first is rig.mnt. The second has several
    connections, all of which reclaim their open files."""
    server = rig.serve()
    other = rig.local / "other"
    other.mkdir()
    rig.mount(server)
    rig.mount(server, "nconnect=4", point=other)
    return server, other


class RebootingServer(Server):
    """A dafsd that treats each start as a start of its machine: it does not rely on data that was not on the disk."""

    # Runs in a mount namespace of its own, without the mounts under test.
    REBOOTED = """
import ctypes, os, sys
NEWNS, PRIVATE, RECURSIVE, BIND, DETACH = 0x20000, 1 << 18, 1 << 14, 1 << 12, 2
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
must(libc.unshare(NEWNS))
must(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
with open("/proc/self/mountinfo") as table:
    for line in table:
        if " - fuse.dafs " in line:
            libc.umount2(line.split()[4].encode(), DETACH)
must(libc.mount(sys.argv[1].encode(), b"/proc/sys/kernel/random/boot_id", None, BIND, None))
os.execv(sys.argv[2], sys.argv[2:])
"""

    def command(self, words):
        boot_id = self.rig.local / "boot-id"
        boot_id.write_text(secrets.token_hex(16) + "\n")
        return [sys.executable, "-c", self.REBOOTED, str(boot_id), *words]


def check_loads(loads, directory, seconds, stop=True):
    for load in loads:
        if not (load.stop(seconds) if stop else load.wait(seconds)):
            raise Failure(f"a change hangs: {load.directory}, after {load.changes}")
    for load in loads:
        check(not load.failures, f"a program saw an error: {load.failures[:1]} after {load.changes} changes")
        differences = load.differences(os.path.join(directory, os.path.basename(load.directory)))
        check(not differences, f"{len(differences)} differences from the model: {differences[:3]}")
        note(f"{load.directory}: {load.changes} changes, {load.counts}")


@scenario(timeout=1800, where="server", loopback=True)
def recover_cut(rig):
    """Connections cut, reset or stalled at the n-th segment or byte, swept over n: no error, the model's end state.
    Shows DAFS-2.2-02 (network)."""
    rig.expect("session with .* lost", "not known whether")
    server = rig.serve()
    (rig.export / "counter").write_bytes(bytes(24))
    bytes_most, bytes_step = (6000, 197) if rig.full else (4000, 997)
    loads = []
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server)

        def run(plan, where, what, direction, seed=None, changes=None):
            """Returns whether the plan was carried out."""
            number = len(loads)
            loads.append(Load(str(rig.mnt / f"load{number}"), seed=number if seed is None else seed,
                              counter=str(rig.mnt / "counter")))
            broken = relay.broken
            time.sleep(0.15)  # a session that fails soon after its start delays the next one
            plan(direction, where, what)
            loads[-1].start(count=changes or (12 if plan == relay.break_after and where < 9 else 40))
            if what == proxy.STALL:
                processes.wait_until(lambda: relay.stalled, 5 * rig.slowness)
                relay.release()
            check_loads(loads[-1:], rig.export, 60 * rig.slowness, stop=False)
            check(changes or relay.broken == broken + 1, f"segment or byte {where} never came")
            return relay.broken == broken + 1

        for direction in (proxy.TO_SERVER, proxy.TO_CLIENT):
            for what in (proxy.CUT, proxy.RESET, proxy.STALL):
                for segment in range(1, 30 if rig.full else 9):
                    run(relay.break_after, segment, what, direction)
            for number in range(1, bytes_most, bytes_step):
                run(relay.break_at_byte, number, proxy.CUT, direction)
            # One workload, cut at each of its segments, to the last.
            segment = 1
            while rig.full and run(relay.break_after, segment, proxy.CUT, direction, seed=7, changes=60):
                segment += 1
            relay.break_nothing()
            if rig.full:
                note(f"a workload of 60 changes cut at each of its {segment - 1} segments in direction {direction}")
    counts = {name: sum(load.counts.get(name, 0) for load in loads) for load in loads for name in load.counts}
    differences = counter_differences(loads, rig.export / "counter")
    check(not differences, f"two had a lock at once: {differences}")
    note(f"{len(loads)} breaks under {counts}")
    # The proxy is gone: pending requests wait until the mount ends.
    rig.umount(flags=("-l",), status=None)


@scenario(timeout=3600, where="server")
def recover_kill(rig):
    """dafsd killed and restarted at random moments under a mixed load on two mounts: no error, the model's end.
    Shows DAFS-2.2-02 (server)."""
    rig.expect("session with .* lost", "not connected", "no session for", "new session")
    kills = 200 if rig.full else 10
    seed, moments = drawn_moments()
    server, other = mount_twice(rig)
    (rig.export / "counter").write_bytes(bytes(24))
    loads = [Load(str(point / f"load{i}"), seed + i, slow=0.001, counter=str(point / "counter")).start()
             for i, point in enumerate((rig.mnt, other) * 4)]
    for number in range(kills):
        time.sleep(moments.uniform(0.05, 1.0))
        before = [load.changes for load in loads]
        kill(server)
        time.sleep(moments.choice((0, 0, 0.3)))
        server.start()
        if not processes.wait_until(lambda: all(load.failed.value or load.changes > count
                                                for load, count in zip(loads, before)), 90 * rig.slowness):
            raise Failure(f"kill {number + 1}: no change in 90 s: {[load.changes for load in loads]}")
        if any(load.failed.value for load in loads):
            break
    check_loads(loads, rig.export, 60 * rig.slowness)
    check(all(len(load.counts) >= 8 for load in loads), "the loads did not do much")
    differences = counter_differences(loads, rig.export / "counter")
    check(not differences, f"two had a lock at once: {differences}")
    note(f"{kills} kills, {sum(load.changes for load in loads)} changes, under locks "
         f"{sum(sum(load.increments) for load in loads)}")
    rig.umount(other)


@scenario(timeout=3600, where="server")
def recover_model(rig):
    """The random calls of `model`, by three users, while dafsd is killed, and sometimes loses its uncommitted data."""
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "written again",
               "write-verifier: missing")
    _, moments = drawn_moments()
    server = rig.serve()
    rig.mount(server)
    calls = model_arguments(rig, 200_000)
    program = [str(word) for word in (PROGRAM, "--users", *calls, rig.mnt, rig.local)]
    kills = 0
    with subprocess.Popen(program, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as model:
        deadline = time.monotonic() + (1500 if rig.full else 300) * rig.slowness
        while True:
            try:
                output, _ = model.communicate(timeout=moments.uniform(0.2, 0.8) * (rig.slowness if kills else 1))
                break
            except subprocess.TimeoutExpired:
                kill(server)
                if moments.random() < 0.5:  # clients see a server that lost its uncommitted data
                    (server.state / "write-verifier").unlink(missing_ok=True)
                server.start()
                kills += 1
            if time.monotonic() > deadline:
                model.kill()
                raise Failure(f"the model has not ended after {kills} kills")
    note(output)
    equal(model.returncode, 0, f"the model's exit status, with {kills} kills")
    check(kills > 0, "it ended before the server was killed")


KEEPS_FILES_OPEN = """
import os, sys
kept = open("kept", "w+b", buffering=0)
kept.write(b"before ")
print("ready", flush=True)
sys.stdin.readline()
kept.write(b"after")
os.fsync(kept.fileno())
print(os.pread(kept.fileno(), 100, 0), flush=True)
"""


def kill(server):
    server.process.kill()
    server.process.wait()
    server.process = None


def restart(server):
    kill(server)
    server.start()


READS_WHAT_IS_REPLACED = """
import errno, os, random, sys, time
moments = random.Random(int(sys.argv[1]))
print("ready", flush=True)
reads = 0
while True:
    name = f"r{moments.randrange(4)}"
    try:
        fd = os.open(name, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.ESTALE:  # replaced twice on its way
            print("open", name, error, flush=True)
            break
        continue
    try:
        first = os.pread(fd, 1 << 16, 0)
        for _ in range(moments.randrange(4)):
            time.sleep(moments.uniform(0, 0.02))
            again = os.pread(fd, 1 << 16, 0)
            if again != first:
                print("read", name, "other data", first[:20], again[:20], flush=True)
        os.fstat(fd)
        reads += 1
    except OSError as error:
        print("read", name, error, reads, time.strftime("%T"), time.time() % 1, flush=True)
        break
    os.close(fd)
"""

REPLACES = """
import os, time
n = 0
print("ready", flush=True)
while True:
    for i in range(4):
        n += 1
        try:
            with open(f"new{i}", "wb") as file:
                file.write(b"%08d %d " % (n, i) * 400)
            os.rename(f"new{i}", f"r{i}")
        except OSError as error:
            print("replace", i, error, flush=True)
            raise SystemExit(1)
        time.sleep(0.005)
"""


@scenario(timeout=3600, where="server")
def recover_replaced(rig):
    """Readers of files that another mount keeps replacing lose none of them, however often dafsd is killed."""
    # Once in 300 kills the log names an open that no program used any more.
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "could not be reclaimed")
    kills = 300 if rig.full else 12
    seed, moments = drawn_moments()
    server, other = mount_twice(rig)
    for i in range(4):
        (rig.mnt / f"r{i}").write_bytes(b"%08d %d " % (0, i) * 400)
    commands = [(READS_WHAT_IS_REPLACED, [str(seed + i)], point)
                for i, point in enumerate((rig.mnt, other, other, other))] + [(REPLACES, [], rig.mnt)]
    programs = [subprocess.Popen([sys.executable, "-c", text, *arguments], cwd=point, stdout=subprocess.PIPE,
                                 text=True, bufsize=1)
                for text, arguments, point in commands]
    try:
        for program in programs:
            equal(program.stdout.readline(), "ready\n", "a program")
        for number in range(kills):
            time.sleep(moments.uniform(0.05, 0.5))
            kill(server)
            time.sleep(moments.choice((0, 0, 0.1)))
            server.start()
            for program in programs:
                if program.poll() is not None:
                    raise Failure(f"after kill {number + 1}: {program.stdout.read()}")
        time.sleep(1)
    finally:
        for program in programs:
            program.kill()
    for program in programs:
        equal(program.communicate()[0], "", "what a program met")
    note(f"{kills} kills")
    rig.umount(other)


@scenario(timeout=90, where="server")
def recover_open(rig):
    """Files stay open over a restart of the server: reading, writing and fsync go on."""
    rig.expect("session with .* lost")
    server = rig.serve()
    rig.mount(server)
    with subprocess.Popen([sys.executable, "-c", KEEPS_FILES_OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          cwd=rig.mnt, text=True) as program:
        equal(program.stdout.readline(), "ready\n", "the program")
        restart(server)
        said = program.communicate("go on\n", timeout=60 * rig.slowness)[0]
    equal((program.returncode, said), (0, "b'before after'\n"), "the program after the restart")
    equal((rig.export / "kept").read_bytes(), b"before after", "the file on the server")


@scenario(timeout=300, where="server", loopback=True)
def recover_stop(rig):
    """A server that is stopped and continued, and a network that is down for a while: every call waits."""
    rig.expect("session with .* lost", "still waiting")
    server = rig.serve()
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server)
        load = Load(str(rig.mnt / "load"), seed=1).start()
        for _ in range(3):
            os.kill(server.process.pid, signal.SIGSTOP)
            time.sleep(0.5)
            before = load.changes
            time.sleep(0.3)
            check(load.changes - before <= 1, "changes went on without a server")
            os.kill(server.process.pid, signal.SIGCONT)
            check(processes.wait_until(lambda: load.failed.value or load.changes > before + 2, 30 * rig.slowness),
                  "nothing goes on after SIGCONT")
            relay.stall()
            time.sleep(0.5)
            before = load.changes
            relay.release()
            check(processes.wait_until(lambda: load.failed.value or load.changes > before + 2, 30 * rig.slowness),
                  "nothing goes on after a partition")
        check_loads([load], rig.export, 30 * rig.slowness)
        # While the mount waits, dafsctl shows the reason, a killed process ends at once, and a waiting one continues
        # later.
        for name in ("one", "other"):  # the kernel lets only one change of a directory wait for us at a time
            os.mkdir(rig.mnt / name)
        kill(server)
        waiter = subprocess.Popen(["mkdir", str(rig.mnt / "one/late")], stdin=subprocess.DEVNULL, cwd="/")
        victim = subprocess.Popen(["mkdir", str(rig.mnt / "other/never")], stdin=subprocess.DEVNULL, cwd="/")
        time.sleep(1)
        check(waiter.poll() is None and victim.poll() is None, "a change without a server")
        started = time.monotonic()
        victim.kill()
        victim.wait(5 * rig.slowness)
        check(time.monotonic() - started < 1.5 * rig.slowness, "a killed process waited for the server")
        report = json.loads(rig.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], cwd="/"))
        check(any(worker.get("not_connected") and worker.get("not_connected_us", 0) > 500_000
                  for worker in report["workers"]), f"dafsctl does not say for what the mount waits: {report}")
        server.start()
        equal(waiter.wait(30 * rig.slowness), 0, "exit status of mkdir")
        check((rig.export / "one/late").is_dir(), "the change that waited was not made")
        rig.umount()


@scenario(timeout=120, where="server")
def recover_soft(rig):
    """A soft mount whose server is gone fails with ETIMEDOUT after timeo; a hard one waits."""
    rig.expect("session with .* lost", "no session for")
    server = rig.serve()
    rig.mount(server, "soft,timeo=10,noac")
    (rig.mnt / "file").write_text("x")
    kill(server)
    for call in (lambda: os.stat(rig.mnt / "file"), lambda: os.mkdir(rig.mnt / "dir"),
                 lambda: os.rename(rig.mnt / "file", rig.mnt / "other")):
        started = time.monotonic()
        equal(errno_of(call), errno.ETIMEDOUT, "errno")
        took = time.monotonic() - started
        check(0.8 < took < 4 * rig.slowness, f"it took {took:.1f} s")
    server.start()
    check(processes.wait_until(lambda: errno_of(os.stat, rig.mnt / "file") == 0, 30 * rig.slowness),
          "the mount does not come back")


@scenario(timeout=120, where="server")
def recover_ranges(rig):
    """Data that is punched out or copied over before its commit does not return after a restart of the machine."""
    rig.need("fallocate")
    rig.expect("session with .* lost", "not connected", "no session for", "new session")
    server = RebootingServer(rig, [f"/data={rig.export},rw,no_root_squash"])
    rig.servers.append(server)
    rig.mount(server.start())
    block = 65536
    (rig.mnt / "source").write_bytes(b"s" * block)
    with open(rig.mnt / "punched", "w+b", buffering=0) as punched, open(rig.mnt / "copied", "w+b", buffering=0) as copied, \
            open(rig.mnt / "source", "rb", buffering=0) as source:
        for file in (punched, copied):
            file.write(b"d" * 2 * block)
        rig.run(["fallocate", "-p", "-o", "0", "-l", str(block), str(rig.mnt / "punched")], cwd="/")
        check(os.copy_file_range(source.fileno(), copied.fileno(), block, 0, 0) == block, "a short copy")
        kill(server)
        server.start()
        for file in (punched, copied):
            os.fsync(file.fileno())
    for name, first in (("punched", b"\0"), ("copied", b"s")):
        found = (rig.export / name).read_bytes()
        check(found == first * block + b"d" * block, f"{name} after the restart: {found[:1]!r}, {found[block:][:1]!r}")


@scenario(timeout=240, where="server", loopback=True)
def altered(rig):
    """With crc, bits flipped in transit end connections, and reach neither a program nor the server's files.
    Shows DAFS-2.3.3-03."""
    server = rig.serve()
    content = random.Random(1).randbytes(8 * MIB)
    (rig.export / "file").write_bytes(content)
    with proxy.Proxy(server.port) as relay:
        mount_through(rig, relay, server, "crc")
        for direction, transfer in ((proxy.TO_CLIENT, _read_directly), (proxy.TO_SERVER, _write_directly)):
            relay.altered = 0
            relay.alter(direction, 40)
            transfer(rig, content)
            relay.alter(direction, None)
            check(relay.altered >= 3, f"only {relay.altered} segments were altered")


def _read_directly(rig, content):
    descriptor = os.open(rig.mnt / "file", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, MIB) as page:
        for at in range(0, len(content), MIB):
            equal(os.preadv(descriptor, [page], at), MIB, "bytes read")
            check(page[:] == content[at:at + MIB], f"MiB {at // MIB} was altered on its way to the program")
    os.close(descriptor)


def _write_directly(rig, content):
    descriptor = os.open(rig.mnt / "written", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    with mmap.mmap(-1, MIB) as page:
        for at in range(0, len(content), MIB):
            page[:] = content[at:at + MIB]
            equal(os.pwritev(descriptor, [page], at), MIB, "bytes written")
    os.fsync(descriptor)
    os.close(descriptor)
    found = hashlib.sha256((rig.export / "written").read_bytes()).hexdigest()
    equal(found, hashlib.sha256(content).hexdigest(), "what the server has")
