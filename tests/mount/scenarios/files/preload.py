"""Programs with libdafs-preload.so (docs/preload.md): what they read by libdafs, and what passes through."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from rig import check, equal, note, scenario
from scenarios.recovery.power import fail_and_return, failing_server

BLOCK = 4096

# Reads and writes blocks of a file with O_DIRECT, and says what differs from what was written. Arguments: the file, and
# one that is not on the mount.
PROGRAM = """
import ctypes, mmap, os, subprocess, sys, threading
BLOCK = 4096
path, other = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)

def equal(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: {found!r:.60}, expected {expected!r:.60}")

def content(text):
    return str(text).encode().ljust(BLOCK, b".")

def read(fd, block, size=BLOCK):
    memory = mmap.mmap(-1, size)
    count = os.preadv(fd, [memory], block * BLOCK)
    return memory[:count]

def write(fd, block, text):
    memory = mmap.mmap(-1, BLOCK)
    memory[:] = content(text)
    equal(os.pwritev(fd, [memory], block * BLOCK), BLOCK, "count of a write")

def open_direct(path):
    return os.open(path, os.O_RDWR | os.O_DIRECT)

with open(path, "wb") as made:
    for block in range(64):
        made.write(content(block))
with open(other, "wb") as made:
    made.write(content("other"))

# Blocks, the end of the file, and errors.
file = open_direct(path)
for block in range(64):
    equal(read(file, block), content(block), f"block {block}")
equal(read(file, 63, 4 * BLOCK), content(63), "a read over the end")
equal(read(file, 64), b"", "a read past the end")
for offset, error in ((-1, 22),):
    memory = ctypes.create_string_buffer(BLOCK)
    equal((libc.pread(file, memory, BLOCK, ctypes.c_int64(offset)), ctypes.get_errno()), (-1, error), f"offset {offset}")
pieces = [mmap.mmap(-1, BLOCK) for _ in range(8)]
equal(os.preadv(file, pieces, 8 * BLOCK), 8 * BLOCK, "count of pieces")
equal([piece[:] for piece in pieces], [content(8 + i) for i in range(8)], "pieces")

# Own writes are seen at once: past the page cache, through it, and from a stream.
write(file, 3, "direct")
equal(read(file, 3), content("direct"), "after a direct write")
buffered = os.open(path, os.O_RDWR)
for turn in range(50):
    os.pwrite(buffered, content(f"buffered {turn}"), 4 * BLOCK)
    equal(read(file, 4), content(f"buffered {turn}"), "after a buffered write")
os.ftruncate(buffered, 60 * BLOCK)
equal(read(file, 62), b"", "after a truncation")
write(file, 70, "longer")
equal(os.fstat(file).st_size, 71 * BLOCK, "size after a write past the end")
equal(read(file, 65), bytes(BLOCK), "a hole")
os.close(buffered)

# Duplicates, and numbers that come to mean another file.
second = os.dup(file)
equal(read(second, 5), content(5), "a duplicate")
os.dup2(os.open(other, os.O_RDONLY), second)
equal(read(second, 0), content("other"), "a number with another file")
os.close(second)
equal(read(file, 5), content(5), "after its duplicate was closed")
CLOSE, OPENAT = {"x86_64": (3, 257), "aarch64": (57, 56)}[os.uname().machine]
libc.syscall(CLOSE, file)  # which no library sees
equal(libc.syscall(OPENAT, -100, other.encode(), os.O_RDONLY), file, "the same number")
equal(read(file, 0), content("other"), "a number with another file, unseen")
os.close(file)
try:
    os.pread(file, 1, 0)
    sys.exit("a closed descriptor is read")
except OSError as error:
    equal(error.errno, 9, "errno of a closed descriptor")

# Threads that read while another opens and closes.
file = open_direct(path)
wrong = []
def reader(number):
    for turn in range(40):
        block = 6 + (7 * number + turn) % 50
        if read(file, block) != content(block):
            wrong.append(block)
def opener():
    for turn in range(50):
        descriptor = open_direct(path)
        if read(descriptor, 6) != content(6):
            wrong.append("opened")
        os.close(descriptor)
threads = [threading.Thread(target=reader, args=(number,)) for number in range(6)] + [threading.Thread(target=opener)]
for thread in threads: thread.start()
for thread in threads: thread.join()
equal(wrong, [], "threads")

# Children: by fork, with the descriptors of the parent and their own; by vfork and execve.
child = os.fork()
if child == 0:
    status = 1
    try:
        equal(read(file, 7), content(7), "a child")
        write(file, 7, "child")
        equal(read(open_direct(path), 7), content("child"), "a child, own descriptor")
        status = 0
    finally:
        os._exit(status)
equal(os.waitpid(child, 0)[1], 0, "status of the child")
equal(read(file, 7), content("child"), "after the child")
for passed in ((), (file,)):
    done = subprocess.run([sys.executable, "-c", f"import os; print(os.pread({file}, 5, {7 * BLOCK}))"], pass_fds=passed,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    equal(done.stdout, b"b'child'\\n" if passed else b"", "an inherited descriptor")
equal(read(file, 8), content(8), "after programs")

# A daemon closes all that it knows nothing of.
for number in range(3, 256):
    if number != file:
        with __import__("contextlib").suppress(OSError):
            os.close(number)
equal(read(file, 9), content(9), "after all other numbers were closed")
os.closerange(3, 256)
file = open_direct(path)
equal(read(file, 10), content(10), "after a range was closed")
print("well")
"""


class Preloaded:
    """Runs programs with the library."""

    def __init__(self, rig):
        self.rig = rig
        self.library = rig.bin / "libdafs-preload.so"
        if not self.library.exists():
            pytest.skip("libdafs-preload.so is not built")
        if b"__asan_init" in (found := self.library.read_bytes()) or b"__tsan_init" in found:
            pytest.skip("programs without the sanitizer cannot load libdafs-preload.so")

    def environment(self):
        return dict(os.environ, LD_PRELOAD=str(self.library), DAFS_PRELOAD_VERBOSE="1")

    def run(self, words, **kwargs):
        return self.rig.run(words, env=self.environment(), **kwargs)


def reads_of_mount(rig):
    """How many READs this mount has sent."""
    report = json.loads(rig.run([rig.bin / "dafsctl", "stats", rig.root, "--json"]))
    return sum(report["procedures"].get(name, {}).get("calls", 0) for name in ("READ_INLINE", "READ_DIRECT"))


@scenario(timeout=60, where="mount", loopback=True)
def preload(rig):
    """A program with threads, forks, duplicates and closed descriptors reads what was written. Reads by the library do not
    reach the mount.
    Shows DAFS-2.4.1-02: the programs are unmodified and call pread(2). Their other calls go to the kernel."""
    preloaded = Preloaded(rig)
    out = preloaded.run([sys.executable, "-c", PROGRAM, rig.root / "file", rig.local / "other"])
    check("well" in out.splitlines(), "the program did not end well")
    check("read by libdafs: " in out, "libdafs was not used")
    (rig.root / "reads").write_bytes(os.urandom(64 * BLOCK))
    before = reads_of_mount(rig)
    words = [sys.executable, "-c", "import mmap, os, sys; file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
             "for i in range(500): os.preadv(file, [mmap.mmap(-1, 4096)], i % 64 * 4096)", rig.root / "reads"]
    preloaded.run(words)
    equal(reads_of_mount(rig) - before, 0, "reads of the mount")
    rig.run(words)
    check(reads_of_mount(rig) - before >= 500, "the mount counts no reads")


@scenario(timeout=60, where="server", loopback=True)
def preload_refused(rig):
    """Programs that the server or the mount refuses read by the mount: without a reserved port, and with fence_id."""
    preloaded = Preloaded(rig)
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,secure"])
    words = [sys.executable, "-c", "import mmap, os, sys; memory = mmap.mmap(-1, 4096)\n"
             "print(os.preadv(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), [memory], 0), memory[:5])", rig.mnt / "file"]
    (rig.export / "file").write_bytes(b"hello")
    for options, user, reason in (("", 65534, "not used: "), ("fence_id=a", 0, None), ("", 0, "read by libdafs: ")):
        rig.mount(server, options)
        out = preloaded.run(words, user=user, cwd="/")
        equal([line for line in out.splitlines() if "preload" not in line], ["5 b'hello'"], "what the program has read")
        equal("libdafs-preload: " + (reason or "") in out, reason is not None, f"reason with {options!r}: {out!r}")
        rig.umount()


@scenario(timeout=300, where="mount", long_only=True, loopback=True)
def preload_programs(rig):
    """fio with verify, and SQLite, with the library."""
    preloaded = Preloaded(rig)
    rig.need("fio", "sqlite3")
    common = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--group_reporting", "--size=16m", "--direct=1",
              f"--directory={rig.root}"]
    for name, words in {
            "random": ["--rw=randwrite", "--bs=4k", "--numjobs=2", "--ioengine=psync"],
            "threads": ["--rw=randrw", "--bs=4k", "--numjobs=6", "--ioengine=psync", "--thread"],
            "vectors": ["--rw=randrw", "--bsrange=4k-256k", "--numjobs=2", "--ioengine=pvsync"],
            "stream": ["--rw=write", "--bs=1m", "--numjobs=2", "--ioengine=psync"],
            "libaio": ["--rw=randwrite", "--bs=4k", "--numjobs=2", "--ioengine=libaio", "--iodepth=8"],
            "behind": ["--rw=randwrite", "--bs=8k", "--numjobs=2", "--ioengine=psync", "--verify_backlog=64"],
    }.items():
        preloaded.run(["fio", f"--name={name}", *words, *common])
    database = rig.root / "database"
    preloaded.run(["sqlite3", database, "PRAGMA journal_mode=WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);"
                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                   " INSERT INTO t SELECT i, hex(randomblob(100)) FROM n; DELETE FROM t WHERE a % 3 = 0; VACUUM;"])
    check("ok" in preloaded.run(["sqlite3", database, "PRAGMA integrity_check;"]).splitlines(), "SQLite: integrity")


# Writes blocks with O_DIRECT and reads them back at random, until its standard input ends. Says how many.
LOAD = """
import mmap, os, random, select, sys
BLOCK = 4096
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
dice, memory, known, count = random.Random(sys.argv[2]), mmap.mmap(-1, BLOCK), {}, 0
while not select.select([0], [], [], 0)[0]:
    block = dice.randrange(256)
    if block not in known or dice.random() < 0.3:
        known[block] = count
        memory[:] = f"{block} {count}".encode().ljust(BLOCK, b".")
        if os.pwritev(file, [memory], block * BLOCK) != BLOCK:
            sys.exit("a short write")
    else:
        found = os.preadv(file, [memory], block * BLOCK), bytes(memory).rstrip(b".").decode()
        if found != (BLOCK, f"{block} {known[block]}"):
            sys.exit(f"block {block}: {found}, expected {known[block]}")
    count += 1
print(count, "operations")
"""


@contextlib.contextmanager
def loads(rig, count, seconds=60):
    """Programs under LOAD, which must end without a difference."""
    preloaded = Preloaded(rig)
    running = [subprocess.Popen([sys.executable, "-c", LOAD, rig.root / f"load{number}", str(number)], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=preloaded.environment()) for number in range(count)]
    try:
        yield
        for one in running:
            out, _ = one.communicate("end", timeout=seconds * rig.slowness)
            note(out)
            equal(one.returncode, 0, f"status of a load ({out[-200:]!r})")
            check("read by libdafs: " in out, "libdafs was not used")
    finally:
        for one in running:
            if one.poll() is None:
                one.kill()
            one.wait()


@scenario(timeout=300, where="mount", long_only=True, loopback=True)
def preload_restarts(rig):
    """The server is killed and restarted under a load: programs with the library see no error and no old data."""
    server = rig.servers[0]
    dice = random.Random(1)
    with loads(rig, 3):
        for _ in range(6):
            time.sleep(1 + dice.random())
            server.stop(signal.SIGKILL)
            time.sleep(dice.random() / 2)
            server.start()
        time.sleep(3)


@scenario(timeout=600, where="server", long_only=True, loopback=True)
def preload_power(rig):
    """The power of the server's disk fails under the load. The mount writes lost data again, and the library reads nothing
    older."""
    rig.need("mkfs.ext4", "losetup")
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "still waiting", "state/clients: ")
    with failing_server(rig, "power") as (server, disk, dice):
        rig.root = rig.mount(server)
        with loads(rig, 3, seconds=240):  # the grace period may last to its end
            time.sleep(4)
            for _ in range(3):
                time.sleep(dice.uniform(1.0, 3.0))
                note(f"losses: {fail_and_return(server, disk)}")
            time.sleep(3)
        rig.umount()
