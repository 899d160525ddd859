"""The runner itself: what it reports of tests that fail in every way, and that none of them leaves anything behind."""

import os
import re
import signal
import subprocess
import sys

import processes
from rig import SOURCE, check, equal, scenario

MOUNT = SOURCE / "tests" / "mount"
TESTS = '''"""Tests of every outcome."""

import os
import signal
import subprocess
import time

import pytest

from rig import Failure, scenario


@scenario(timeout=60, variants=True)
def passes(rig):
    """Passes."""
    (rig.root / "file").write_text("x")


@scenario(timeout=60, where="server")
def skips(rig):
    """Is skipped."""
    pytest.skip("no reason")


@scenario(timeout=2, where="mount")
def hangs(rig):
    """Waits for a server that never answers."""
    os.kill(rig.servers[0].process.pid, signal.SIGSTOP)
    (rig.root / "directory").mkdir()


@scenario(timeout=60, where="mount")
def fails(rig):
    """Fails."""
    raise Failure("as it should")


@scenario(timeout=60, where="mount")
def dies(rig):
    """Dies."""
    os.kill(os.getpid(), signal.SIGKILL)


@scenario(timeout=60, where="server")
def leaves(rig):
    """Leaves a process behind."""
    subprocess.Popen(["sleep", "1000"], cwd="/", start_new_session=True)


@scenario(timeout=60, where="server")
def mounts_late(rig):
    """Leaves a process that mounts while it is being ended."""
    (rig.base / "late").mkdir()
    subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1; mount -t tmpfs dafs-test $1", "sh", rig.base / "late"],
                     cwd="/", start_new_session=True)


@scenario(timeout=60, where="mount")
def differs(rig):
    """Its mount has not the content of the directory to which it is compared."""
    rig.behind = rig.local
    (rig.root / "file").write_text("x")


@scenario(timeout=60, where="mount", long_only=True)
def sleeps(rig):
    """Sleeps."""
    time.sleep(50)
'''


def _command(rig, *arguments):
    """Returns the command that runs pytest on TESTS, with their directories below rig.local, and its environment."""
    (rig.local / "scenarios").mkdir(exist_ok=True)
    path = rig.local / "scenarios" / "inner.py"
    path.write_text(TESTS)
    words = [sys.executable, "-B", "-m", "pytest", "-p", "conftest", "-c", MOUNT / "pytest.ini", "--bin", rig.bin,
             *(["--slow"] if rig.slowness > 1 else []), *arguments]
    return [str(word) for word in words] + [str(path)], {**os.environ, "PYTHONPATH": str(MOUNT),
                                                         "TMPDIR": str(rig.local)}


@scenario(timeout=120, where="server")
def runner(rig):
    """Every outcome is reported as what it is; a hung mount is aborted, and a test that leaves something fails."""
    command, environment = _command(rig, "--variants", "default,checksum")
    text = rig.run(command, cwd="/", status=1, env=environment)
    outcomes = dict(re.findall(r"::(\S+) (PASSED|FAILED|SKIPPED) ", text))
    equal(outcomes, {"passes[default]": "PASSED", "passes[checksum]": "PASSED", "skips": "SKIPPED", "hangs": "FAILED",
                     "fails": "FAILED", "dies": "FAILED", "leaves": "FAILED", "mounts_late": "FAILED",
                     "differs": "FAILED"}, "outcomes")
    for reason in ("not finished after", "left mounted: ", "as it should", "ended with status -9",
                   r"left running: \d+ sleep", r"left mounted: \S+/late ",
                   "differs from its exported directory", "no reason"):
        check(re.search(reason, text), f"nothing reported: {reason}")
    equal(text.splitlines()[-1], "mount: 2 passed, 6 failed, 1 skipped", "the last line")
    equal([name for name in os.listdir(rig.local) if name != "scenarios"], [], "directories left")
    check("--variants" in rig.run([MOUNT / "run", "--help"], cwd="/"), "--help without the options")


@scenario(timeout=180, where="server", alone=True)
def runner_interrupted(rig):
    """SIGINT and SIGTERM end a run within seconds. Its mounts and processes end with it."""
    command, environment = _command(rig, "--all", "-k", "sleeps")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background ignores it, and so would the run
    for number, status in ((signal.SIGINT, 2), (signal.SIGTERM, 143)):
        with open(rig.logs / "runner.txt", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                       env=environment)
        check(processes.wait_until(lambda: processes.mounts_below(rig.local), 60 * rig.slowness), "no mount")
        process.send_signal(number)
        equal(process.wait(20 * rig.slowness), status, f"exit status after {number.name}")
        equal(processes.mounts_below(rig.local), [], f"mounts after {number.name}")
        equal(rig.daemons(), {}, f"daemons after {number.name}")
