"""mount.dafs against a server with no code in common with ours: lawful but unlike dafsd, and hostile."""

import os
import subprocess

import processes
from layout import BIT
from peer_server import MANDATORY, Server
from rig import Failure, check, equal, scenario, tail


def pattern(size, seed=0):
    return bytes((index * 131 + index // 253 + seed) % 256 for index in range(size))


def workload(root, size=100_000):
    """Calls of ordinary programs, each result compared."""
    root.mkdir()
    (root / "small").write_bytes(b"twelve bytes")
    equal((root / "small").read_bytes(), b"twelve bytes", "a small file")
    content = pattern(size)
    (root / "large").write_bytes(content)
    equal((root / "large").read_bytes(), content, "a large file")
    with open(root / "large", "r+b", buffering=0) as file:
        equal(os.pread(file.fileno(), 1000, size - 500), content[-500:], "a read over the end")
        equal(os.pread(file.fileno(), 10, size + 5), b"", "a read after the end")
        os.pwrite(file.fileno(), b"middle", 5000)
        os.fsync(file.fileno())
        os.ftruncate(file.fileno(), 5003)
        equal(os.fstat(file.fileno()).st_size, 5003, "size after ftruncate")
    equal((root / "large").read_bytes(), content[:5000] + b"mid", "content after pwrite and ftruncate")
    os.truncate(root / "large", 5001)
    (root / "large").chmod(0o600)
    equal((root / "large").read_bytes(), content[:5000] + b"m", "content after truncate")
    (root / "large").write_bytes(b"anew")
    equal((root / "large").read_bytes(), b"anew", "content after O_TRUNC")
    with open(root / "small", "ab") as file:
        file.write(b" and more")
    equal((root / "small").read_bytes(), b"twelve bytes and more", "after an append")
    with open(root / "log", "ab", buffering=0) as file:
        equal(file.write(content), size, "bytes of the first large append")
        equal(file.write(content), size, "bytes of the next")
    check((root / "log").read_bytes() == 2 * content, "what was appended is not there once")
    os.unlink(root / "log")
    names = [f"entry{number:03}" for number in range(40)]
    (root / "many").mkdir()
    for name in names:
        (root / "many" / name).touch()
    equal(sorted(os.listdir(root / "many")), names, "a listing")
    equal(sorted(entry.name for entry in os.scandir(root / "many") if entry.is_file()), names, "a listing with types")
    os.rename(root / "many" / "entry000", root / "moved")
    check(not (root / "many" / "entry000").exists() and (root / "moved").exists(), "a rename")
    os.symlink("small", root / "link")
    equal(os.readlink(root / "link"), "small", "a symbolic link")
    equal((root / "link").read_bytes(), b"twelve bytes and more", "a file under a symbolic link")
    os.link(root / "small", root / "second")
    equal((root / "second").read_bytes(), b"twelve bytes and more", "a second name")
    os.unlink(root / "second")
    try:
        os.rmdir(root / "many")
        raise Failure("rmdir of a directory that is not empty")
    except OSError:
        pass
    try:
        (root / "never").read_bytes()
        raise Failure("a file that is not there")
    except FileNotFoundError:
        pass
    with open(root / "excl", "xb") as file:
        file.write(b"once")
    try:
        open(root / "excl", "xb").close()
        raise Failure("O_EXCL of a file that exists")
    except FileExistsError:
        pass
    for name in names[1:]:
        os.unlink(root / "many" / name)
    os.rmdir(root / "many")
    equal(sorted(os.listdir(root)), ["excl", "large", "link", "moved", "small"], "what is left")
    os.statvfs(root)


LAWFUL = {
    "defaults": {},
    "smallest messages": {"request_size": 1024, "response_size": 1024},
    "large messages": {"request_size": 65536, "response_size": 65536},
    "sizes that differ": {"request_size": 1024, "response_size": 16384},
    "one credit": {"requests": 1},
    "many credits": {"requests": 500},
    "credits that shrink to one": {"requests": 16, "target": 1},
    "credits that grow": {"requests": 1, "target": 40},
    "short reads": {"read_most": 1000},
    "short writes": {"write_most": 700},
    "one entry at a time": {"entries_most": 1},
    "mandatory attributes only": {"known": MANDATORY},
    "no mode": {"known": (1 << 25) - 1 & ~BIT["MODE"]},
    "no times": {"known": MANDATORY | BIT["MODE"] | BIT["OWNER"] | BIT["NUM_LINKS"]},
    "no direct transfers": {"missing": ("READ_DIRECT", "WRITE_DIRECT", "READDIR_DIRECT")},
    "an RDMA-read Channel": {"rdma_read": True},
    "an RDMA-read Channel that cannot be bound": {"rdma_read": True, "missing": ("CONNECT_BIND",)},
    "no ACCESS": {"missing": ("ACCESS",)},
    "no credentials": {"missing": ("REGISTER_CRED", "RELEASE_CRED")},
    "no way to connect and authenticate in one": {"missing": ("CLIENT_CONNECT_AUTH", "SECINFO")},
    "nothing that is not needed": {"missing": ("REGISTER_CRED", "SECINFO", "SERVER_AUTH", "CHECK_RESPONSE",
                                              "FETCH_RESPONSE", "DISCARD_RESPONSES", "ACCESS", "CACHE_HINT", "OPENATTR",
                                              "OPEN_DOWNGRADE", "VERIFY", "NVERIFY", "READ_DIRECT", "WRITE_DIRECT",
                                              "APPEND_DIRECT", "READDIR_DIRECT", "READLINK_DIRECT",
                                              "GETATTR_DIRECT", "SETATTR_DIRECT", "BATCH_SUBMIT", "LOCK", "LOCKT",
                                              "LOCKU", "LOOKUPP")},
    "DELAY": {"delays": 1},
    "GRACE": {"delays": 1, "refusal": "GRACE"},
    "out of order": {"reorder": 3},
    "CRC wanted": {"crc": True},
    "special conditions": {"spec_cond": 3},
    "a connect response of 4096 bytes": {"connect_bytes": 4096},
    "padding that is not zero": {"padding": b"\xee"},
}


def mounted(rig, server, options=""):
    """Mounts; returns the exit status on failure, otherwise None."""
    point = rig.mnt
    log = rig.logs / "mount.dafs.log"
    command = rig.mount_command(f"127.0.0.1:{server.port}:/data", point, options)
    with open(log, "ab") as output:
        process = subprocess.Popen(command + ["-f"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                                   start_new_session=True)
    processes.wait_until(lambda: os.path.ismount(point) or process.poll() is not None, 30 * rig.slowness)
    if process.poll() is None:
        rig.mounted[point] = process
        return None
    return process.returncode


@scenario(timeout=240, where="server", loopback=True)
def foreign(rig):
    """A mount of a server that follows the protocol, but differs from dafsd in every permitted way.
    Shows DAFS-6.1.5-02, DAFS-3.1.2.2-04, DAFS-3.2.6.3-04, DAFS-4.1.4-12, DAFS-4.1.4-13, DAFS-4.3.1-02, DAFS-6.2.1-01,
    DAFS-6.5.9-02, DAFS-6.5.27-05, DAFS-3.2.1-01, DAFS-6.5.35-01, DAFS-3.1-01 (client), DAFS-3.2.5-01 (client),
    DAFS-3.2.5-02 (client), DAFS-6.1.2-03 (client)."""
    rig.expect(".*")
    failed = []
    for name, quirks in LAWFUL.items():
        for options in ("", "checksum") if not quirks else ("",):
            server = Server(**quirks)
            try:
                status = mounted(rig, server, options)
                if status is not None:
                    failed.append(f"{name}: mount.dafs ended with {status}: {tail(rig.logs / 'mount.dafs.log', 1)}")
                    continue
                try:
                    workload(rig.mnt / "work", 20_000 if "short" in name or "smallest" in name else 100_000)
                except (OSError, Failure) as error:
                    failed.append(f"{name} {options}: {error}")
                rig.umount(status=None)
            finally:
                if complaints := server.stop():
                    failed.append(f"{name} {options}: the server complains: {complaints}")
    if failed:
        raise Failure("; ".join(failed))


# Responses that a server must not send. Programs may see an error, or a wait that a signal ends, but never a crash.
HOSTILE = ("magic", "order", "length", "short", "tiny", "sequence", "stream", "analyzer", "status", "header", "garbage",
           "ones", "long", "twice", "nreq", "silent", "terminate")
# Forbidden accesses to the client's memory, or false reports of them, from the first read or write on.
MISPLACED = ("beyond", "before", "wrap", "stag", "peek", "overclaim")


def gentle(root):
    """Calls of a program while any of them may fail. Returns the errors."""
    errors = []

    def attempt(call, *args):
        try:
            return call(*args)
        except OSError as error:
            errors.append(error.errno)
            return None

    if content := attempt((root / "big").read_bytes):
        check(content == b"big file" * 25_000, "a read that succeeds with wrong data")
    attempt(os.mkdir, root / "work")
    attempt((root / "file").write_bytes, pattern(20_000))
    attempt((root / "file").read_bytes)
    attempt(os.listdir, root)
    attempt(os.stat, root / "file")
    attempt(os.rename, root / "file", root / "other")
    attempt(os.unlink, root / "other")
    attempt(os.statvfs, root)
    return errors


@scenario(timeout=400, where="server", loopback=True)
def foreign_hostile(rig):
    """Servers that break the protocol in each response from one on: mount.dafs reports it, and keeps running."""
    rig.expect(".*")
    failed = []
    for how in HOSTILE + MISPLACED if rig.full else ("length", "sequence", "garbage", "nreq", "beyond", "overclaim"):
        for begin in (1, 9, 40) if rig.full and how in HOSTILE else (9,):
            for options in ("soft,timeo=5", "soft,timeo=5,checksum") if rig.full else ("soft,timeo=5",):
                server = Server(hostile=how, hostile_from=begin)
                log = rig.logs / "mount.dafs.log"
                before = log.stat().st_size if log.exists() else 0
                try:
                    status = mounted(rig, server, options)
                    if status is None:
                        gentle(rig.mnt)
                        if rig.mounted[rig.mnt].poll() is not None:
                            failed.append(f"{how} from {begin}: mount.dafs ended with {rig.mounted[rig.mnt].poll()}")
                            rig.mounted.pop(rig.mnt)
                            subprocess.run(["umount", "-l", str(rig.mnt)], check=False)
                        else:
                            rig.umount(flags=["-f"], status=None)
                    elif status < 0 or status not in (1, 16, 32):
                        failed.append(f"{how} from {begin}: mount.dafs ended with {status}")
                    elif log.stat().st_size == before:
                        failed.append(f"{how} from {begin}: no word why the mount failed")
                finally:
                    server.stop()
    if failed:
        raise Failure("; ".join(failed))


@scenario(timeout=240, where="server", loopback=True)
def foreign_cuts(rig):
    """A server that cuts the connection again and again, at any point: the mount loses and doubles no change."""
    rig.expect(".*")
    for every in (7, 10, 23):
        server = Server(close_after=every)
        try:
            status = mounted(rig, server)
            equal(status, None, f"mount of a server that cuts each {every}th request")
            for number in range(6):
                (rig.mnt / f"file{number}").write_bytes(pattern(9_000, number))
            for number in range(6):
                equal((rig.mnt / f"file{number}").read_bytes(), pattern(9_000, number), f"file{number} after cuts")
            equal(sorted(os.listdir(rig.mnt)), ["big"] + [f"file{number}" for number in range(6)], "names after cuts")
            rig.umount(status=None)
        finally:
            server.stop()
