"""The surroundings of one scenario: a dafsd on a temporary export, a mount of it, and commands run there.

A scenario is a test of pytest: a function with the mark of @scenario and the fixture `rig`, a Rig. It raises Failure or
any exception to fail, and calls pytest.skip to be skipped.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

import processes
import tree

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
ENDS_WITHIN = 15  # seconds after umount, as fuse/mount/mount.cc promises


class Failure(AssertionError):
    """The scenario failed."""


def scenario(timeout=60, where="tree", variants=False, long_only=False, loopback=False, alone=False):
    """Makes a function a test of pytest under its own name.

    timeout: seconds. where: "tree" works on any directory; "mount" needs a mount; "server" makes its own. variants:
    mount options could change the outcome. long_only: runs with --all only. loopback: speaks TCP to 127.0.0.1 itself.
    alone: no other test runs at the same time, because it measures time or CPU, or builds the programs.
    """
    marks = [pytest.mark.timeout(timeout)]
    if where != "server":
        marks.append(pytest.mark.usefixtures(where))
    marks += [mark for mark, wanted in ((pytest.mark.variants, variants), (pytest.mark.long_only, long_only),
                                        (pytest.mark.loopback, loopback), (pytest.mark.alone, alone)) if wanted]

    def register(function):
        function.__test__ = True  # pytest collects it whatever its name is
        for mark in marks:
            function = mark(function)
        return function

    return register


def check(condition, text):
    __tracebackhide__ = True  # the caller is of interest
    if not condition:
        raise Failure(text)


def equal(found, expected, what):
    __tracebackhide__ = True
    if found != expected:
        raise Failure(f"{what}: {found!r}, expected {expected!r}")


def errno_of(call, *args, **kwargs):
    """Runs a system call; returns its errno, 0 if it worked."""
    try:
        call(*args, **kwargs)
    except OSError as error:
        return error.errno
    return 0


@contextlib.contextmanager
def acting_as(user):
    """This thread's effective user, for a while."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port):
    """Whether a socket listens on TCP `port` (read from /proc, so the server sees no stray connection)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                if any(re.match(rf"\s*\d+: \w+:{port:04X} [0-9A-F:]+ 0A ", line) for line in lines):
                    return True
        except OSError:
            pass
    return False


# Words that must not occur in a log line. A line that reports an error starts with `E` or `error`.
ERRORS = re.compile(r"\b(ERROR|FATAL|CHECK failed|AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error|"
                    r"internal error|terminate called|Assertion)\b|^[EF]\d{4} |\berror: ", re.IGNORECASE)


class Server:
    """One dafsd, on loopback or on the device of --address, with its own state directory and log."""

    def __init__(self, rig, exports, arguments=(), port=None):
        self.rig = rig
        self.exports = exports  # ["/name=dir,rw,no_root_squash"]
        self.arguments = list(arguments)
        self.address = rig.address
        self.port = port or free_port()
        self.state = rig.base / f"state-{self.port}"
        self.log = rig.logs / f"dafsd-{self.port}.log"
        self.socket = rig.base / f"dafsd-{self.port}.sock"  # for dafsctl server
        if len(os.fsencode(self.socket)) > 107:  # of a rig inside a scenario: too long for a socket
            self.socket = "none"
        self.process = None

    def start(self):
        self.state.mkdir(mode=0o700, exist_ok=True)
        at = f"{self.rig.server_proto}:{self.address}:{self.port}"
        command = [str(self.rig.bin / "dafsd"), "--foreground", "--listen", at, "--state-dir", str(self.state),
                   "--admin-socket", str(self.socket)]
        for export in self.exports:  # peers of the tests connect from any port
            command += ["--export", export if "secure" in export.split(",") else f"{export},insecure"]
        started = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(command + self.arguments), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd="/", start_new_session=True)

        def ready():  # /proc does not show who listens on a device
            if self.rig.server_proto == "tcp":
                return listening(self.port)
            return b" exports on rdma:" in self.log.read_bytes()[started:]

        if not processes.wait_until(lambda: ready() or self.process.poll() is not None,
                                    20 * self.rig.slowness) or self.process.poll() is not None:
            raise Failure(f"dafsd does not listen: {tail(self.log, 3)}")
        return self

    def command(self, words):
        """The command line of a dafsd with these arguments."""
        return words

    def stop(self, number=signal.SIGTERM):
        """Ends the server; after SIGTERM it must exit with status 0 within 10 seconds."""
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            status = process.wait(10 * self.rig.slowness)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failure("dafsd did not end within 10 s of SIGTERM") from None
        if number == signal.SIGTERM:
            equal(status, 0, "exit status of dafsd")

    def usage(self):
        """Returns {threads, descriptors, resident KiB} of the server process."""
        pid = self.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status if ":" in line)
        return {"threads": int(fields["Threads"]), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "resident": int(fields["VmRSS"].split()[0])}


class Rig:
    """The argument of a scenario. `root` is the directory to work in, `local` one beside it on the local disk."""

    def __init__(self, name, arguments, options, base, logs):
        self.name = name
        self.bin = pathlib.Path(arguments.bin).resolve()
        self.options = options  # mount options added to every mount
        self.address = arguments.address  # of every server
        self.server_proto = arguments.server_proto or arguments.proto or "tcp"  # the address that they listen on
        if arguments.proto:
            self.options = ",".join(word for word in (self.options, f"proto={arguments.proto}") if word)
        self.full = arguments.all
        self.slowness = 6 if arguments.slow else 1
        self.base = base
        self.logs = logs
        self.local = base / "local"
        self.export = base / "export"
        self.mnt = base / "mnt"
        self.plain = arguments.plain is not None
        self.root = None
        self.behind = None  # the exported directory
        self.servers = []
        self.mounted = {}  # mount point: process in the foreground, None for a daemon
        for directory in (self.local, self.export, self.mnt):
            directory.mkdir()
        base.chmod(0o755)  # other users reach the mount through it
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):  # daemons have no stderr
            given = os.environ.get(name)
            os.environ[name] = (given + ":" if given else "") + f"log_path={logs}/sanitizer"

    # Servers and mounts

    def serve(self, exports=None, arguments=(), port=None):
        """Starts a dafsd; by default it exports self.export as /data, root not squashed."""
        server = Server(self, exports or [f"/data={self.export},rw,no_root_squash"], arguments, port)
        self.servers.append(server)
        return server.start()

    def mount_command(self, source, point, options="", program=None):
        words = [str(program or self.bin / "mount.dafs"), source, str(point)]
        # Without retries, unless the scenario sets them: it waits for the server itself, or tests the failure.
        retry = "" if "retry=" in options or "remount" in options else "retry=0"
        joined = ",".join(word for word in (self.options, retry, options) if word)
        return words + (["-o", joined] if joined else [])

    def mount(self, server, options="", export="/data", point=None, daemon=False, flags=(), source=None):
        """Mounts and returns the mount point. With `daemon` mount.dafs runs in the background, as in normal use.
        Otherwise it runs in the foreground, so that its log and exit status can be checked. `flags`: of its command
        line. `source`: a DAFS name, in place of a server."""
        point = pathlib.Path(point or self.mnt)
        log = self.logs / "mount.dafs.log"
        source = source or f"{self.address}:{server.port}:{export}"
        command = self.mount_command(source, point, options) + list(flags)
        with open(log, "ab") as output:
            if daemon:
                status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                                        timeout=30 * self.slowness, check=False).returncode
                process = None
            else:
                process = subprocess.Popen(command + ["-f"], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                           cwd="/", start_new_session=True)
                processes.wait_until(lambda: os.path.ismount(point) or process.poll() is not None, 30 * self.slowness)
                status = process.poll() or 0
        if status != 0:
            raise Failure(f"mount.dafs: exit status {status}: {tail(log, 3)}")
        check(os.path.ismount(point), f"mount.dafs {'returned 0' if daemon else 'runs'} but {point} is not mounted")
        self.mounted[point] = process
        return point

    def mount_twice(self, options="", arguments=()):
        """Serves and mounts one export twice; returns both mount points."""
        server = self.serve(arguments=arguments)
        second = self.base / "mnt2"
        second.mkdir()
        return self.mount(server, options), self.mount(server, options, point=second)

    def umount(self, point=None, flags=(), status=0):
        """Unmounts; a mount.dafs in the foreground must then end with `status` (None: any)."""
        point = pathlib.Path(point or self.mnt)
        self.run(["umount", *flags, str(point)], cwd="/", timeout=20)
        process = self.mounted.pop(point, None)
        if process is not None:
            try:
                found = process.wait(ENDS_WITHIN * self.slowness)
            except subprocess.TimeoutExpired:
                raise Failure(f"mount.dafs still runs {ENDS_WITHIN} s after umount") from None
            if status is not None:
                equal(found, status, "exit status of mount.dafs after umount")

    def check_idle(self):
        """Fails if an idle mount holds a slot, a request or a buffer."""
        if not os.access(self.bin / "dafsctl", os.X_OK):
            return
        for point in self.mounted:
            held = []

            def idle():
                done = subprocess.run([self.bin / "dafsctl", "status", "--json", point], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
                check(done.returncode == 0, f"dafsctl status: {done.stdout.decode(errors='replace').strip()}")
                held[:] = held_things(json.loads(done.stdout))
                return not held

            if not processes.wait_until(idle, 5 * self.slowness, 0.1):
                raise Failure("an idle mount still holds " + ", ".join(held))

    def daemons(self):
        """Returns {pid: command} of this scenario's mount.dafs daemons."""
        return self.running("mount.dafs")

    def running(self, *programs):
        """Returns {pid: command} of this scenario's processes whose name begins so."""
        return {pid: command for pid, command in processes.marked(os.environ[processes.MARK]).items()
                if os.path.basename(command.split(" ")[0]).startswith(programs)}

    def check_content(self, patience=5.0):
        """Fails if the mount differs from its exported directory, after the server removed all files without a name.

        The kernel sends RELEASE after close(2) returns, so such a file may live on for a moment.
        """
        def look():
            try:
                return tree.differences(self.root, self.behind)
            except FileNotFoundError as error:
                if b".dafsd-orphans" not in os.fsencode(error.filename):
                    raise
                return [str(error)]  # removed during the look-up

        deadline = time.monotonic() + patience
        while (found := look()) and time.monotonic() < deadline:
            if not all(".dafsd-orphans" in line or line == "..." for line in found):
                break
            time.sleep(0.05)
        if found:
            raise Failure("the mount differs from its exported directory: " + "; ".join(found))

    def abandon(self):
        """Ends the servers of a scenario that failed. The sweep after it removes the rest."""
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.process.terminate()

    def close(self):
        """Unmounts, waits for the daemons to end, stops the servers and reads all logs."""
        if self.behind is not None and self.root in self.mounted:
            self.check_content()
        os.chdir("/")
        self.check_idle()
        for point in reversed(list(self.mounted)):
            self.umount(point)
        ended = ("mount.dafs", "dafs-guardian", "dafs-notifier")
        if not processes.wait_until(lambda: not self.running(*ended), ENDS_WITHIN * self.slowness):
            raise Failure(f"mount.dafs still runs {ENDS_WITHIN} s after umount: {self.running(*ended)}")
        for server in self.servers:
            server.stop()
        self.check_logs()

    def check_logs(self):
        for report in self.logs.glob("sanitizer.*"):
            raise Failure(f"sanitizer: {report.read_text(errors='replace')[:1500]}")
        for log in self.logs.glob("*.log"):
            if log.name == "scenario.log":
                continue
            for line in log.read_text(errors="replace").splitlines():
                if ERRORS.search(line) and not self.expected(line):
                    raise Failure(f"{log.name}: {line.strip()[:200]}")

    expected_patterns = ()

    def expect(self, *patterns):
        """Expects log lines that match one of `patterns`: the scenario provokes them."""
        self.expected_patterns = self.expected_patterns + patterns

    def expected(self, line):
        return any(re.search(pattern, line) for pattern in self.expected_patterns)

    # Commands

    def run(self, command, cwd=None, timeout=600, status=0, user=None, stdin=None, env=None, merge=True):
        """Runs a command in self.root; returns its output. Fails unless it ends with `status` (None: any)."""
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        print("$", " ".join(str(word) for word in command), flush=True)
        start = time.monotonic()
        # Into a file: a pipe ends only when every process that inherited it ends, such as a daemon's symbolizer under a
        # sanitizer.
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run([str(word) for word in command], cwd=cwd or self.root, check=False,
                                      input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
                                      stdout=output, stderr=subprocess.STDOUT if merge else subprocess.DEVNULL,
                                      timeout=timeout * self.slowness, env=env, **who)
            except subprocess.TimeoutExpired:
                raise Failure(f"{command[0]} did not end within {timeout} s") from None
            except FileNotFoundError:
                pytest.skip(f"{command[0]} is not installed")
            output.seek(0)
            text = output.read().decode(errors="replace")
        print(text[-4000:], f"({time.monotonic() - start:.2f} s, status {done.returncode})", flush=True)
        if status is not None and done.returncode != status:
            last = text.strip().splitlines()[-1:] or [""]
            raise Failure(f"{' '.join(map(str, command))[:80]}: exit status {done.returncode}: {last[0][:160]}")
        return text if status is not None else (done.returncode, text)

    def need(self, *programs):
        for program in programs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")


def held_things(report):
    """Returns the counts in the JSON of dafsctl that are still in use, as "name=count", from any depth of the
    report."""
    found = []
    if isinstance(report, dict):
        for name, value in report.items():
            if name == "leased":
                value -= 1  # the buffer into which a worker reads its next request from the kernel
            if name in ("slots_taken", "waiting_for_slots", "leased", "quarantined", "waiting") and value > 0:
                found.append(f"{name}={value}")
            elif name == "outstanding" and value:
                found.append(f"{len(value) if isinstance(value, list) else value} requests")
            else:
                found += held_things(value)
    elif isinstance(report, list):
        for value in report:
            found += held_things(value)
    return found


def tail(path, lines):
    try:
        return " | ".join(path.read_text(errors="replace").splitlines()[-lines:]) or "(nothing logged)"
    except OSError:
        return "(no log)"


def note(text):
    """A line for the scenario's log."""
    print(text, file=sys.stdout, flush=True)
