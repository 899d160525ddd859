"""The systems that scripts/bench compares on one directory: mount.dafs, and the cost of FUSE alone. bench_remote.py has
the others.

`caches` says how each is mounted: with the default caches of attributes and names for some seconds, or with none. With
none, every call goes to the server, and the server has the data of a write when the write is answered.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import processes
import rig
import uring

SECONDS = 3  # of attributes and names with caches: the least cache time of mount.dafs for files


def call(command, log, timeout=600):
    return subprocess.run([str(word) for word in command], check=True, timeout=timeout, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=log, text=True, cwd="/")


def mount_tmpfs(directory):
    subprocess.run(["mount", "-t", "tmpfs", "dafs-bench", str(directory)], check=True)


def remove_tree(directory):
    shutil.rmtree(directory, ignore_errors=True)


def children_of(pids):
    """`pids` and all their descendants. Reads nothing that could wait for a process."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    parent = stat.read().rsplit(b")", 1)[1].split()[1]
            except OSError:
                continue  # it ended meanwhile
            below.setdefault(int(parent), []).append(int(entry))
    found = []
    wanted = list(pids)
    while wanted:
        pid = wanted.pop()
        found.append(pid)
        wanted += below.get(pid, [])
    return found


@contextlib.contextmanager
def awake():
    """While this is entered, idle CPUs of the machine do not sleep."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as device:
        device.write((0).to_bytes(4, sys.byteorder))
        yield


@dataclasses.dataclass
class Place:
    bin: pathlib.Path
    base: pathlib.Path  # for state, mount points and other files
    backing: pathlib.Path  # the directory that all systems export
    log: object
    cpu: int  # for pinned rows


class System:
    """A file system on `point`. `start` returns why it is not available, or None."""

    name = ""
    about = ""

    def __init__(self, place, name=None):
        self.place = place
        self.name = name or self.name
        self.point = place.base / self.name
        self.point.mkdir()
        self.state = place.base / f"{self.name}.state"
        self.state.mkdir(mode=0o700)
        self.exported = place.backing  # the directory that it exports
        self.children = {}  # part: [Popen]
        self.commands = {}  # part or way of mounting: the command, for the report
        self.caches = True

    def start(self):
        return None

    def mount(self, caches):
        self.caches = caches
        self.commands["with caches" if caches else "without"] = self.attach(caches)
        if not processes.wait_until(lambda: os.path.ismount(self.point), 15):
            raise RuntimeError(f"{self.name} does not mount")

    def umount(self):
        if os.path.ismount(self.point):
            call(["umount", self.point], self.place.log, timeout=30)
        self.end("client")

    def remount(self):
        self.umount()
        self.mount(self.caches)

    def stop(self):
        self.umount()
        for part in list(self.children):
            self.end(part)

    def attach(self, caches):
        """Mounts; returns the command."""
        raise NotImplementedError

    def point_text(self):
        """The directory or URL that the probe measures."""
        return self.point

    def probe(self):
        """The command of the probe, up to ROW."""
        return [self.place.bin / "dafs_bench_probe"]

    def has(self, row):
        """Whether `row` can be measured on it."""
        return True

    def spawn(self, part, command, **options):
        command = [str(word) for word in command]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.place.log, stderr=self.place.log,
                                   cwd="/", **options)
        self.children.setdefault(part, []).append(process)
        return " ".join(command)

    def serve(self, command, port):
        """Starts a server and waits until it listens. Returns why it does not, or None."""
        self.commands["server"] = self.spawn("server", command)
        server = self.children["server"][-1]
        if not processes.wait_until(lambda: rig.listening(port) or server.poll() is not None, 15) or server.poll():
            return f"{pathlib.Path(str(command[0])).name} does not listen"
        return None

    def end(self, part):
        for process in self.children.pop(part, []):
            if not processes.wait_until(lambda: process.poll() is not None, 5 if part == "client" else 0):
                process.terminate()
            process.wait(15)

    def processes(self):
        """The processes whose time is counted, by part."""
        parts = {}
        for part, children in self.children.items():
            parts[part] = children_of(child.pid for child in children if child.poll() is None)
        return parts

    def pin(self, pinned):
        """Pins its processes, this program and its future children to one CPU, or unpins them."""
        cpus = {self.place.cpu} if pinned else range(os.cpu_count())
        pids = [pid for part in self.processes().values() for pid in part]
        for pid in pids:
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(thread), cpus)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
        os.sched_setaffinity(0, cpus)


class Dafs(System):
    name = "dafs"
    about = "mount.dafs and dafsd over TCP"
    export_options = ""

    def __init__(self, place, options, name=None, server_options=()):
        super().__init__(place, name)
        self.more = options
        self.server_options = server_options
        self.port = rig.free_port()

    def start(self):
        return self.serve([self.place.bin / "dafsd", "--foreground", "--listen", f"tcp:127.0.0.1:{self.port}",
                           "--state-dir", self.state, "--export",
                           f"/bench={self.place.backing},rw,no_root_squash{self.export_options}", *self.server_options],
                          self.port)

    def attach(self, caches):
        joined = ",".join(filter(None, ("" if caches else "noac,lookupcache=none", self.more)))
        return self.spawn("client", [self.place.bin / "mount.dafs", f"127.0.0.1:{self.port}:/bench", self.point, "-f",
                                     *(["-o", joined] if joined else [])])


class DafsBefore(Dafs):
    """The same options with the programs of another build, for instance from before a change."""

    name = "dafs-before"
    about = "mount.dafs and dafsd of the build that --before names"

    def __init__(self, place, programs, options):
        super().__init__(dataclasses.replace(place, bin=programs), options, self.name)
        self.measured_by = place

    def probe(self):
        return [self.measured_by.bin / "dafs_bench_probe"]


class DafsOwn(Dafs):
    """The same, mounted for one user, as sshfs does by default: only the server checks permissions, and there are no
    ACLs."""

    name = "dafs-own"
    about = "the same with nodefault_permissions and noacl"

    def __init__(self, place):
        super().__init__(place, "nodefault_permissions,noacl", self.name)


class DafsClients(Dafs):
    """The same with an export that only clients change: the kernel keeps what is promised until the server calls."""

    name = "dafs-clients"
    about = "the same with the export option changed_by=clients"
    export_options = ",changed_by=clients"

    def __init__(self, place):
        super().__init__(place, "", self.name)


class DafsUnsaved(Dafs):
    """The same with a server without a response cache. If a reply is lost, the outcome of the change is unknown."""

    name = "dafs-unsaved"
    about = "the same with dafsd --response-cache 0"

    def __init__(self, place):
        super().__init__(place, "", self.name, ("--response-cache", "0"))


class DafsPower(Dafs):
    """The same with a server that makes changes safe from a power loss before it replies."""

    name = "dafs-power"
    about = "the same with dafsd --stable power"

    def __init__(self, place):
        super().__init__(place, "", self.name, ("--stable", "power"))


class DafsTls(Dafs):
    """The same over TLS, with a certificate that is made for the run."""

    name = "dafs-tls"
    about = "the same with xprtsec=tls"
    export_options = ",xprtsec=tls"

    def __init__(self, place):
        certificate, key = place.base / "tls.pem", place.base / "tls.key"
        super().__init__(place, f"xprtsec=tls,tlsca={certificate}", self.name,
                         ("--tls-cert", certificate, "--tls-key", key))
        self.certificate, self.key = certificate, key

    def start(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.key, "-out", self.certificate], check=True, capture_output=True)
        self.key.chmod(0o600)
        return super().start()


class DafsAsleep(Dafs):
    """The same without a limit on the wake-up latency of idle CPUs."""

    name = "dafs-asleep"
    about = "the same with cpu_latency=off and dafsd --cpu-latency off"

    def __init__(self, place):
        super().__init__(place, "cpu_latency=off", self.name, ("--cpu-latency", "off"))


class DafsByUring(Dafs):
    """The same mount with requests over io_uring, which the kernel offers during the measurement."""

    name = "dafs-uring"
    about = "the same with io_uring=on"

    def __init__(self, place):
        super().__init__(place, "io_uring=on", self.name)
        self.offer = contextlib.ExitStack()

    def start(self):
        return self.offer.enter_context(uring.offered()) or super().start()

    def stop(self):
        super().stop()
        self.offer.close()


class Passthrough(System):
    """The least cost of FUSE, in one thread. The kernel checks permissions, as for mount.dafs."""

    name = "passthrough"
    about = "tests/bench/passthrough.cc, a FUSE file system that passes every call to the backing directory"
    more = ""

    def attach(self, caches):
        return self.spawn("client", [self.place.bin / "dafs_passthrough", self.point, "-f", "-o",
                                     f"source={self.exported},timeout={SECONDS if caches else 0},default_permissions"
                                     f"{self.more}"])


class PassthroughOverTcp(Passthrough):
    """The cost of FUSE and a server together, without a protocol. Each request of the kernel needs a round trip."""

    name = "over-tcp"
    about = "the same, with one message to another process and its reply over TCP for each call"
    more = ",over_tcp"


class NullFuse(System):
    """The floor: no store and no server, only the kernel and one way to receive its requests, in one thread."""

    name = "null-channel"
    about = "tests/bench/null_fuse.cc, a FUSE file system without a store, with the channel of mount.dafs"
    loop = "channel"
    ROWS = ("read-4k", "read-1m", "write-4k", "write-8k", "write-1m", "stat", "missing-uncached")

    def has(self, row):
        return row in self.ROWS

    def attach(self, caches):
        return self.spawn("client", [self.place.bin / "dafs_null_fuse", self.point, self.loop])


class NullFuseSession(NullFuse):
    name = "null-session"
    about = "the same with libfuse's fuse_session_loop"
    loop = "session"


class NullFuseBuffers(NullFuse):
    name = "null-buffers"
    about = "the same with libfuse's fuse_session_receive_buf and fuse_session_process_buf"
    loop = "buffers"


class LibfusePassthrough(System):
    """libfuse's own example, in libfuse's loop with many threads."""

    name = "libfuse"
    about = "passthrough_ll of libfuse's examples, unchanged"
    EXAMPLES = pathlib.Path("/usr/share/doc/libfuse3-dev/examples")
    EXAMPLE = "passthrough_ll"

    def start(self):
        source = self.EXAMPLES / f"{self.EXAMPLE}.c"
        if not source.exists():
            return f"{source} does not exist"
        self.program = self.state / self.EXAMPLE
        flags = call(["pkg-config", "--cflags", "--libs", "fuse3"], self.place.log).stdout.split()
        # Without HAVE_UTIMENSAT, passthrough_fh cannot set the times of files.
        build = ["cc", "-O2", "-w", "-DHAVE_UTIMENSAT", source, "-o", self.program, *flags]
        self.commands["build"] = " ".join(str(word) for word in build)
        call(build, self.place.log)
        return None

    def attach(self, caches):
        return self.spawn("client", [self.program, self.point, "-f", "-o",
                                     f"source={self.exported},cache=auto,timeout={SECONDS if caches else 0},"
                                     "default_permissions"])


class LibfuseHighPassthrough(LibfusePassthrough):
    """libfuse's example of its high-level interface, which finds files by their paths. It never lets the kernel cache
    attributes or names, with or without `caches`."""

    name = "libfuse-high"
    about = "passthrough_fh of libfuse's examples, unchanged: nothing is cached"
    EXAMPLE = "passthrough_fh"

    def attach(self, caches):
        return self.spawn("client", [self.program, self.point, "-f", "-o",
                                     f"modules=subdir,subdir={self.exported},default_permissions"])
