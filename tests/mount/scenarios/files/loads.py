"""Third-party tests of file systems: stress-ng, dbench, bonnie++, and PostgreSQL, which verifies the data it reads."""

import glob
import os
import re
import shutil
import signal
import subprocess

import processes
from rig import Failure, check, equal, note, scenario

NOBODY = 65534
# The file system stressors of stress-ng 0.15 and later, and others that work on files. Stressors that need a device, or
# change the machine, are left out.
STRESSORS = (
    "access chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fcntl fiemap file-ioctl filename "
    "flock fpunch fsize fstat getdent handle hdd inode-flags inotify io iomix lease link locka lockf lockofd mknod open "
    "rename symlink sync-file touch utime xattr aio aiol readahead revio seek sendfile splice mmap mmapmany mmapfork msync "
    "fault mincore mlock madvise tee exec fanotify chattr").split()
QUICK = "copy-file dirmany filename flock fpunch inotify link lockofd mmap open rename utime".split()
SIZES = {"copy-file": ["--copy-file-bytes", "128m"], "hdd": ["--hdd-bytes", "64m"], "mmap": ["--mmap-file"],
         "seek": ["--seek-size", "64m"], "sync-file": ["--sync-file-bytes", "32m"]}


def _stress(rig, stressor, where, user):
    """Returns the failures that stress-ng reports for `where`, as lines; none if it passes or has no such stressor."""
    command = ["stress-ng", f"--{stressor}", "2", *SIZES.get(stressor, ()), "--timeout", "3" if rig.full else "1", "--verify",
               "--temp-path", where]
    status, text = rig.run(command, cwd=where, timeout=90, status=None, user=user)
    wrong = re.findall(r"(?:fail|error): +\[\d+\] (.*)", text)
    wrong = [line for line in wrong if "No stress workers invoked" not in line and not line.startswith("failed: 0")]
    left = os.listdir(where)
    for name in left:
        shutil.rmtree(where / name, ignore_errors=True)
    return wrong + [f"left behind: {name}" for name in left] + ([f"exit status {status}"] if status == 2 else [])


@scenario(timeout=1500)
def stress(rig):
    """stress-ng's stressors of file systems, as root and as an ordinary user: no more fails than on a local directory."""
    rig.need("stress-ng")
    found = []
    for user in (None, NOBODY):
        places = rig.root / f"stress{user}", rig.local / f"stress{user}"
        for place in places:
            place.mkdir()
            place.chmod(0o777)
        rig.local.chmod(0o755)
        for stressor in STRESSORS if rig.full else QUICK:
            wrong = _stress(rig, stressor, places[0], user)
            if wrong and not _stress(rig, stressor, places[1], user):
                found.append(f"{stressor}, {'root' if user is None else 'a user'}: {wrong[0]}")
    check(not found, "; ".join(found))


@scenario(timeout=300, variants=True)
def dbench(rig):
    """dbench: the calls of a file server's clients, eight at once."""
    rig.need("dbench")
    rig.run(["dbench", "-D", rig.root, "-t", 60 if rig.full else 3, 8], timeout=200)
    equal(os.listdir(rig.root), ["clients"] if os.path.exists(rig.root / "clients") else [], "files left by dbench")


@scenario(timeout=1500)
def bonnie(rig):
    """bonnie++ as an ordinary user: data, and names of every length in and out of order."""
    rig.need("bonnie++")
    where = rig.root / "bonnie"
    where.mkdir()
    where.chmod(0o777)
    size, memory, files = (1024, 512, 16) if rig.full else (64, 32, 2)
    single_bytes = [] if rig.full else ["-f"]  # each is a round trip
    rig.run(["bonnie++", "-q", *single_bytes, "-d", where, "-s", size, "-r", memory, "-n", f"{files}:20000:10:8"], user=NOBODY, timeout=1400)
    equal(os.listdir(where), [], "files left by bonnie++")


class Postgres:
    """A PostgreSQL server with its data in `directory`, run as an ordinary user; reached by a socket on a local disk."""

    def __init__(self, rig, directory):
        found = [path for path in (shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))) if path]
        rig.need("psql" if found else "initdb")
        self.programs = os.path.dirname(found[-1])
        self.rig = rig
        self.directory = directory
        self.sockets = rig.base / "sockets"
        for place in (directory, self.sockets):
            place.mkdir()
            os.chown(place, NOBODY, NOBODY)
            place.chmod(0o700)
        self.settings = (f"-c unix_socket_directories={self.sockets} -c listen_addresses= -c fsync=on "
                         "-c full_page_writes=on -c shared_buffers=16MB -c max_wal_size=64MB -c checkpoint_timeout=30s")

    def run(self, program, *words, **how):
        env = dict(os.environ, PGHOST=str(self.sockets), PGUSER="nobody", PGDATABASE="postgres", LC_ALL="C", HOME="/")
        return self.rig.run([os.path.join(self.programs, program), *words], cwd="/", user=NOBODY, env=env, **how)

    def control(self, *words):
        return self.run("pg_ctl", "-D", self.directory, "-w", "-l", self.directory / "log", *words)

    def start(self):
        self.control("-o", self.settings, "start")

    def ask(self, question):
        return self.run("psql", "-AtqX", "-c", question).strip()

    def kill(self):
        """Kills all processes at once, as a power failure does: nothing is written any more."""
        leader = int((self.directory / "postmaster.pid").read_text().split()[0])
        os.kill(leader, signal.SIGKILL)
        gone = processes.wait_until(lambda: not processes_below(self.directory), 20)
        check(gone, "processes of PostgreSQL outlive their server")


def processes_below(directory):
    """Processes of PostgreSQL whose current directory is `directory`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(directory):
                found.append(pid)
        except OSError:
            pass
    return found


@scenario(timeout=900, variants=True)
def postgres(rig):
    """PostgreSQL: pgbench by several clients, a killed server that recovers, checksums and indexes verified."""
    server = Postgres(rig, rig.root / "data")
    scale, seconds = (10, 60) if rig.full else (1, 4)
    server.run("initdb", "-D", server.directory, "-k", "-A", "trust", "--no-instructions")
    server.start()
    server.run("pgbench", "-i", "-q", "-s", scale)
    server.run("pgbench", "-n", "-c", 4, "-j", 2, "-T", seconds)
    done = server.ask("select count(*) from pgbench_history")
    check(int(done) > 0, "pgbench has done nothing")
    equal(server.ask("select sum(bbalance) from pgbench_branches"), server.ask("select sum(delta) from pgbench_history"),
          "the sum of all balances")
    server.control("-m", "fast", "stop")
    server.start()
    equal(server.ask("select count(*) from pgbench_history"), done, "transactions after a restart")
    command = [os.path.join(server.programs, "pgbench"), "-n", "-c", "4", "-T", "60", "-h", str(server.sockets), "-U", "nobody",
               "postgres"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        grown = processes.wait_until(lambda: int(server.ask("select count(*) from pgbench_history")) > int(done) + 50, 30, 0.3)
        check(grown, "pgbench does nothing after a restart")
        server.kill()
        load.wait(30)
    server.start()
    equal(server.ask("select sum(bbalance) from pgbench_branches"), server.ask("select sum(delta) from pgbench_history"),
          "the sum of all balances after a crash")
    server.run("pg_amcheck", "--install-missing", "--heapallindexed", "postgres")
    server.ask("vacuum full")
    check("pgbench_accounts" in server.run("pg_dump", "postgres"), "pg_dump shows no table")
    server.control("-m", "fast", "stop")
    server.run("pg_checksums", "--check", "-D", server.directory)
    note((server.directory / "log").read_text(errors="replace")[-3000:])
    for line in (server.directory / "log").read_text(errors="replace").splitlines():
        if re.search(r"PANIC|could not (read|write|fsync|open|extend)|invalid page", line):
            raise Failure(f"PostgreSQL says: {line}")
