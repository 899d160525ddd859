"""dafsd under a cluster manager: its resource agent."""

import os
import pathlib
import shutil
import signal

import processes
from rig import SOURCE, check, equal, free_port, listening, scenario

AGENT = SOURCE / "share/ocf/dafsd"
SUCCESS, GENERIC, NOT_RUNNING = 0, 1, 7  # of the OCF standard


class Resource:
    """A dafsd that the agent runs."""

    def __init__(self, rig):
        self.rig = rig
        self.port = free_port()
        self.state = rig.base / "state"
        self.state.mkdir(mode=0o700)
        self.run_directory = rig.base / "run"
        self.run_directory.mkdir()
        self.config = rig.base / "dafsd.conf"
        self.config.write_text(f"export = /data={rig.export},rw,insecure\nlisten = tcp:127.0.0.1:{self.port}\n")
        self.parameters = {"state_dir": self.state, "config": self.config, "binary": rig.bin / "dafsd",
                           "dafsctl": rig.bin / "dafsctl", "socket": rig.base / "dafsd.sock",
                           "address": f"127.0.0.1:{self.port}"}

    def environment(self):
        return {**os.environ, "OCF_ROOT": "/usr/lib/ocf", "OCF_RESOURCE_INSTANCE": "test", "OCF_RA_VERSION_MAJOR": "1",
                "OCF_RA_VERSION_MINOR": "1", "HA_RSCTMP": str(self.run_directory),
                **{f"OCF_RESKEY_{name}": str(value) for name, value in self.parameters.items()}}

    def act(self, action, status=SUCCESS):
        """Runs the agent; returns its output."""
        return self.rig.run([AGENT, action], cwd="/", env=self.environment(), status=status, timeout=60)

    def pid(self):
        return int((self.run_directory / "dafsd-test.pid").read_text())


@scenario(timeout=120, where="server", loopback=True)
def resource_agent(rig):
    """The agent starts and stops dafsd, and distinguishes one that hangs from one that has ended."""
    check(shutil.which("xmllint") is None or rig.run(["xmllint", "--noout", "--nonet", "-"], cwd="/",
                                                     stdin=rig.run([AGENT, "meta-data"], cwd="/", env={
                                                         **os.environ, "OCF_ROOT": "/usr/lib/ocf"}).encode()) == "",
          "meta-data is not XML")
    if not pathlib.Path("/usr/lib/ocf/lib/heartbeat/ocf-shellfuncs").exists():
        rig.need("ocf-tester")
    resource = Resource(rig)
    resource.act("monitor", NOT_RUNNING)
    resource.act("start")
    check(listening(resource.port), "dafsd listens after start")
    resource.act("monitor")
    pid = resource.pid()
    os.kill(pid, signal.SIGKILL)
    check(processes.wait_until(lambda: not listening(resource.port), 10), "dafsd ends")
    processes.reap()
    resource.act("monitor", NOT_RUNNING)
    (resource.run_directory / "dafsd-test.pid").write_text(f"{os.getpid()}\n")  # of another program by now
    resource.act("monitor", NOT_RUNNING)
    resource.act("start")
    check(resource.pid() != pid, "another process")
    resource.act("stop")
    check(not listening(resource.port), "dafsd listens after stop")
    resource.parameters["config"] = rig.base / "absent.conf"
    check("absent.conf" in resource.act("validate-all", 5), "the reason is named")


@scenario(timeout=300, where="server", loopback=True, long_only=True)
def resource_agent_conforms(rig):
    """ocf-tester accepts the agent, and a dafsd that hangs is reported and can be stopped."""
    rig.need("ocf-tester")
    resource = Resource(rig)
    words = [word for name, value in resource.parameters.items() for word in ("-o", f"{name}={value}")]
    said = rig.run(["ocf-tester", "-n", "test", *words, AGENT], cwd="/",
                   env={**os.environ, "HA_RSCTMP": str(resource.run_directory)}, timeout=120)
    check("passed all tests" in said, said)
    resource.act("start")
    os.kill(resource.pid(), signal.SIGSTOP)
    check("does not answer" in resource.act("monitor", GENERIC), "the reason is named")
    resource.act("stop")
    equal(listening(resource.port), False, "dafsd listens after stop")
