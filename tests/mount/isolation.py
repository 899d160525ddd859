"""Runs each test in a process of its own, so that it may hang in the kernel, change user or directory, and be killed.

The process runs set-up, call and teardown of one test and leaves their reports in a file. The parent never touches the
mount. It kills the process when its time is over, aborts and unmounts what is left, and reports one result: what a test
leaves behind makes it fail.

With -n several tests run at a time, except those marked alone.
"""

import contextlib
import fcntl
import marshal
import os
import pathlib
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback

import pytest
from _pytest.runner import runtestprotocol

import processes

BASE = pytest.StashKey()  # the directory a test works in
LOGS = pytest.StashKey()  # the directory of its logs
SECONDS = pytest.StashKey()  # its timeout
DEADLINE = pytest.StashKey()
REPORTS = "reports"  # the file by which a child hands over its reports


def pytest_timeout_set_timer(item, settings):
    """Of pytest-timeout: replaces its signal or thread, neither of which ends a call that hangs in the kernel."""
    item.stash[SECONDS] = settings.timeout
    return True


@contextlib.contextmanager
def _turn(item, workplace):
    """Waits until no other worker runs a test that is marked alone, or, if `item` is, until none runs any test."""
    with open(pathlib.Path(workplace) / "turn", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        yield


def run(item, workplace, keep_logs=None):
    """Runs one test and reports it. `keep_logs`: a directory for its logs, or None."""
    with _turn(item, workplace):
        _run(item, workplace, keep_logs)


def _run(item, workplace, keep_logs):
    start = time.monotonic()
    if SECONDS in item.stash:
        item.stash[DEADLINE] = start + item.stash[SECONDS]
    name = item.originalname
    base = item.stash[BASE] = pathlib.Path(tempfile.mkdtemp(prefix=f"dafs-{name}-", dir=workplace))
    logs = item.stash[LOGS] = pathlib.Path(tempfile.mkdtemp(prefix=f"dafs-log-{name}-", dir=workplace))
    os.environ[processes.MARK] = secrets.token_hex(8)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        ended = _run_in_child(item, logs)
        left = processes.sweep(base)
        report = _result(item, logs, ended, left)
        if report.failed:
            report.sections += _log_ends(logs)
        if keep_logs:
            shutil.copytree(logs, keep_logs, dirs_exist_ok=True)
    except BaseException:  # interrupted: leave nothing behind
        processes.sweep(base)
        raise
    finally:
        shutil.rmtree(base, ignore_errors=True)
        shutil.rmtree(logs, ignore_errors=True)
    report.duration = time.monotonic() - start
    item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _run_in_child(item, logs):
    """Returns why the child gave no reports, None if it gave them."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _be_child(item, logs)
            status = 0
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    try:
        status = _wait_for(child, item.stash.get(DEADLINE, None))
    except BaseException:  # interrupted
        os.kill(child, signal.SIGKILL)
        raise
    if status is None:  # it may hang in the mount; the sweep that follows frees it
        os.kill(child, signal.SIGKILL)
        return f"not finished after {item.stash[SECONDS]:g} s"
    return None if status == 0 else f"ended with status {status}"


def _be_child(item, logs):
    os.setsid()
    output = os.open(logs / "scenario.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reports = runtestprotocol(item, log=False)  # without a next item it takes down all fixtures
    to_builtins = item.config.hook.pytest_report_to_serializable
    (logs / REPORTS).write_bytes(marshal.dumps([to_builtins(config=item.config, report=report) for report in reports]))


def _wait_for(child, deadline):
    """Waits for the child and returns its exit status, None at the deadline. Reaps daemons too: they are handed to this
    process when their parent ends."""
    while deadline is None or time.monotonic() < deadline:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == child:
                return os.waitstatus_to_exitcode(found[1])
        time.sleep(0.01)
    return None


def _failure(item, text):
    return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call")


def _result(item, logs, ended, left):
    """Returns one report for the test: the first failure of its phases, otherwise the skip, otherwise the call's."""
    if ended:
        return _failure(item, "; ".join([ended, *left]))
    from_builtins = item.config.hook.pytest_report_from_serializable
    phases = [from_builtins(config=item.config, data=data) for data in marshal.loads((logs / REPORTS).read_bytes())]
    failed, skipped = ([phase for phase in phases if phase.outcome == outcome] for outcome in ("failed", "skipped"))
    report = (failed or skipped or phases[1:])[0]
    report.when = "call"
    return _failure(item, "; ".join(left)) if report.passed and left else report


def _log_ends(logs):
    """Returns the last lines of each log as sections of a report."""
    return [(log.name, "\n".join(line[:300] for line in log.read_text(errors="replace").splitlines()[-15:]))
            for log in sorted(logs.glob("*.log")) if log.stat().st_size]
