"""The file systems that scripts/bench compares: each is started over one directory, mounted, and taken down again."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import processes
import rig


def call(command, log, timeout=600):
    return subprocess.run([str(word) for word in command], check=True, timeout=timeout, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=log, text=True, cwd="/")


def mount_tmpfs(directory):
    subprocess.run(["mount", "-t", "tmpfs", "dafs-bench", str(directory)], check=True)


def remove_tree(directory):
    shutil.rmtree(directory, ignore_errors=True)


@dataclasses.dataclass
class Place:
    bin: pathlib.Path
    base: pathlib.Path  # for state, mount points and the like
    backing: pathlib.Path  # the directory that all show
    log: object
    cpu: int  # of pinned rows


class System:
    """A file system on `point`. `start` returns why it cannot be had, or nothing."""

    name = ""

    def __init__(self, place):
        self.place = place
        self.point = place.base / self.name
        self.point.mkdir()
        self.children = {}  # part: [Popen]
        self.options = ""

    def start(self):
        return None

    def mount(self, options):
        self.options = options
        self.attach(options)
        if not processes.wait_until(lambda: os.path.ismount(self.point), 15):
            raise RuntimeError(f"{self.name} does not mount")

    def umount(self):
        if os.path.ismount(self.point):
            call(["umount", self.point], self.place.log, timeout=30)
        self.end("client")

    def remount(self):
        self.umount()
        self.mount(self.options)

    def stop(self):
        self.umount()
        for part in list(self.children):
            self.end(part)

    def attach(self, options):
        raise NotImplementedError

    def spawn(self, part, command):
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.place.log,
                                   stderr=self.place.log, cwd="/")
        self.children.setdefault(part, []).append(process)
        return process

    def end(self, part):
        for process in self.children.pop(part, []):
            if not processes.wait_until(lambda: process.poll() is not None, 5 if part == "client" else 0):
                process.terminate()
            process.wait(15)

    def processes(self):
        """The processes whose time is counted, by part."""
        return {part: [child.pid for child in children if child.poll() is None]
                for part, children in self.children.items()}

    def pin(self, pinned):
        """Puts all of it and this program, and so what it starts, on one CPU, or lets them go."""
        cpus = {self.place.cpu} if pinned else range(os.cpu_count())
        pids = [pid for part in self.processes().values() for pid in part]
        for pid in pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), cpus)
        os.sched_setaffinity(0, cpus)


class Dafs(System):
    name = "dafs"

    def __init__(self, place, options):
        super().__init__(place)
        self.more = options
        self.port = rig.free_port()

    def start(self):
        state = self.place.base / "state"
        state.mkdir(mode=0o700)
        server = self.spawn("server", [self.place.bin / "dafsd", "--foreground", "--listen",
                                       f"tcp:127.0.0.1:{self.port}", "--state-dir", state, "--export",
                                       f"/bench={self.place.backing},rw,no_root_squash"])
        if not processes.wait_until(lambda: rig.listening(self.port) or server.poll() is not None, 15) or server.poll():
            raise RuntimeError("dafsd does not listen")

    def attach(self, options):
        joined = ",".join(filter(None, (options, self.more)))
        self.spawn("client", [self.place.bin / "mount.dafs", f"127.0.0.1:{self.port}:/bench", self.point, "-f",
                              *(["-o", joined] if joined else [])])


class Passthrough(System):
    name = "passthrough"

    def attach(self, options):
        self.spawn("client", [self.place.bin / "dafs_passthrough", self.point, "-f", "-o",
                              f"source={self.place.backing}"])


class Sshfs(System):
    """sshfs over an sshd of its own, encrypted as ssh is."""

    name = "sshfs"

    def start(self):
        for program in ("sshfs", "/usr/sbin/sshd", "ssh-keygen"):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        self.state = self.place.base / "ssh"
        self.state.mkdir(mode=0o700)
        for key in ("host", "user"):
            call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.state / key], self.place.log)
        self.port = rig.free_port()
        (self.state / "config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.state}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.state}/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            "Subsystem sftp internal-sftp\n", encoding="ascii")
        os.makedirs("/run/sshd", exist_ok=True)
        server = self.spawn("server", ["/usr/sbin/sshd", "-D", "-e", "-f", self.state / "config"])
        if not processes.wait_until(lambda: rig.listening(self.port) or server.poll() is not None, 15) or server.poll():
            return "sshd does not listen"
        return None

    def attach(self, options):
        self.spawn("client", ["sshfs", "-f", f"root@127.0.0.1:{self.place.backing}", self.point, "-p", self.port,
                              "-o", f"IdentityFile={self.state}/user,StrictHostKeyChecking=no,"
                                    f"UserKnownHostsFile={self.state}/known"])

    def processes(self):
        return {}  # ssh and its children come and go: only the figures are compared


PEERS = {peer.name: peer for peer in (Passthrough, Sshfs)}
