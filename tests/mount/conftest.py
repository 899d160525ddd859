"""pytest for scenarios: the options of a run, which scenarios it takes, and the rig as fixtures."""

import argparse
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

import isolation
import processes
import rig as rigs
import uring

# Mount options that must not change what programs see. `wire` has three at once, so that a change needs one run for them.
OTHER_ORDER = f"byteorder={'little' if sys.byteorder == 'big' else 'big'}"  # not this machine's
VARIANTS = {
    "default": "",
    "checksum": "checksum",
    "nconnect": "nconnect=4",
    "small": "msgsize=1024",
    "swapped": OTHER_ORDER,
    "wire": f"checksum,msgsize=1024,{OTHER_ORDER}",
    "noac": "noac,lookupcache=none",
    "uring": "io_uring=on",
}
SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"
PR_SET_CHILD_SUBREAPER = 36
WORKPLACE = pytest.StashKey()  # the directory in which all tests of a run work
UNFINISHED = pytest.StashKey()  # whether a phase of a test has failed or was skipped


def pytest_addoption(parser):
    group = parser.getgroup("scenarios", "scenarios of mount.dafs and dafsd")
    group.addoption("--all", action="store_true", help="full sizes, and the scenarios that take long")
    group.addoption("--plain", metavar="DIR", help="run on this directory instead of a mount")
    group.addoption("--options", default="", help="mount options for every mount")
    group.addoption("--proto", choices=["tcp", "rdma"],
                    help="transport of the mounts, and of the servers unless --server-proto says otherwise")
    group.addoption("--server-proto", choices=["tcp", "rdma"], help="what the servers listen on")
    group.addoption("--address", default="127.0.0.1", help="where the servers listen (rdma: a device's address)")
    group.addoption("--variants", type=_variants, default="default",
                    help="sets of mount options, comma separated, or all: " + " ".join(VARIANTS))
    group.addoption("--bin", default=str(rigs.SOURCE / "build" / "bin"), help="where the programs are")
    group.addoption("--slow", action="store_true", help="allow six times the time (sanitizer builds)")
    group.addoption("--keep-logs", metavar="DIR", help="keep the logs of every scenario here")


def _variants(text):
    labels = list(VARIANTS) if text == "all" else text.split(",")
    if unknown := set(labels) - set(VARIANTS):
        raise argparse.ArgumentTypeError(f"no variant {' '.join(unknown)}")
    return labels


def pytest_configure(config):
    config.pluginmanager.register(isolation)
    files = {}
    for path in SCENARIOS.rglob("*.py"):
        for name in re.findall(r"^@scenario\b(?:.*\n)+?def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if name in files:  # the command line and scripts/requirements know a scenario by its name alone
                raise pytest.UsageError(f"two scenarios are named {name}: in {files[name].name} and {path.name}")
            files[name] = path
    arguments = getattr(config, "args", ())  # --help has none
    if any(argument in files for argument in arguments):  # names of scenarios, from tests/mount/run
        config.args = [f"{files[argument]}::{argument}" if argument in files else argument
                       for argument in arguments if argument != str(SCENARIOS)]


def _named(config):
    """Whether the command line names its scenarios: then those run that are otherwise left out."""
    return any("::" in argument for argument in config.args)


# Which tests there are


def pytest_generate_tests(metafunc):
    labels = metafunc.config.option.variants
    marked = metafunc.definition.get_closest_marker("variants") is not None
    if labels != ["default"] and (marked or _named(metafunc.config)):
        metafunc.parametrize("variant", labels, indirect=True)


def _variant(item):
    return item.callspec.params["variant"] if hasattr(item, "callspec") else "default"


def pytest_collection_modifyitems(config, items):
    labels = config.option.variants
    left_out = [item for item in items if _variant(item) not in labels or
                item.get_closest_marker("long_only") and not config.option.all and not _named(config)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: labels.index(_variant(item)))
    for item in items:
        if reason := _why_skip(config.option, item):
            item.add_marker(pytest.mark.skip(reason=reason))
        if config.option.slow:
            timeout = item.get_closest_marker("timeout").args[0] * 6
            item.add_marker(pytest.mark.timeout(timeout), append=False)


def _why_skip(options, item):
    """Returns why a test cannot run here, None if it can."""
    if options.plain is not None:
        return None if "tree" in item.fixturenames else "needs a mount"
    if os.geteuid() != 0:
        return "needs root"
    if item.get_closest_marker("loopback") and options.address != "127.0.0.1":
        return "about TCP on loopback"
    if not os.path.exists("/dev/fuse") and not {"tree", "mount"}.isdisjoint(item.fixturenames):
        return "no /dev/fuse"
    return None


# The run


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    config = session.config
    if config.option.collectonly:
        return
    missing = [name for name in ("dafsd", "mount.dafs")
               if not os.access(os.path.join(config.option.bin, name), os.X_OK)]
    if missing and config.option.plain is None:
        raise pytest.UsageError(f"not built: {' '.join(missing)} in {config.option.bin}")
    # A process whose parent ends is handed to this one. That includes those of a worker of -n that was killed.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if hasattr(config, "workerinput"):
        config.stash[WORKPLACE] = config.workerinput["workplace"]
    else:
        signal.signal(signal.SIGTERM, lambda *_: pytest.exit("ended by SIGTERM", returncode=143))
        config.stash[WORKPLACE] = _make_workplace(config.option.plain)
        config.add_cleanup(lambda: _remove_workplace(config.stash[WORKPLACE]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Of xdist: prepares a worker of -n."""
    node.workerinput["workplace"] = node.config.stash[WORKPLACE]


def _make_workplace(parent):
    """Makes a directory below `parent` or the usual one for temporary files, on a file system that dafsd can export."""
    place = tempfile.mkdtemp(prefix="dafs-mounts-", dir=parent)
    os.chmod(place, 0o755)  # other users reach mounts through it
    kind = subprocess.run(["stat", "-f", "-c", "%T", place], stdout=subprocess.PIPE, check=True).stdout
    if parent is None and kind.startswith(b"overlay"):  # as in a container: overlay has no file handles
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "dafs-test", place], check=True)
    return place


def _remove_workplace(place):
    processes.sweep(place)
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", place], check=False)
    shutil.rmtree(place, ignore_errors=True)  # of a worker of -n that was killed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    config = item.config
    keep = config.option.keep_logs and os.path.join(config.option.keep_logs, f"{item.originalname}-{_variant(item)}")
    with uring.offered(_variant(item) == "uring") as reason:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        isolation.run(item, config.stash[WORKPLACE], keep)
    return True


def pytest_report_teststatus(report):
    if report.skipped:
        return None  # pytest adds the reason
    return report.outcome, "." if report.passed else "F", f"{report.outcome.upper()} {report.duration:.1f} s"


def pytest_unconfigure(config):
    if config.stash.get(WORKPLACE, None) and not hasattr(config, "workerinput"):
        reports = config.pluginmanager.get_plugin("terminalreporter").stats
        counts = {kind: len(reports.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
        print(f"mount: {counts['passed']} passed, {counts['failed'] + counts['error']} failed, "
              f"{counts['skipped']} skipped", flush=True)


# The fixtures. They live in the process of their test.


def pytest_runtest_makereport(item, call):
    item.stash[UNFINISHED] = item.stash.get(UNFINISHED, False) or call.excinfo is not None


@pytest.fixture
def variant(request):
    """The label of the set of mount options under which the test runs."""
    return getattr(request, "param", "default")


@pytest.fixture
def rig(request, variant):
    """A Rig without a server. Afterwards it is closed, which checks that mounts and servers end in order."""
    given, item = request.config.option, request.node
    options = ",".join(part for part in (given.options, VARIANTS[variant]) if part)
    made = rigs.Rig(item.originalname, given, options, item.stash[isolation.BASE], item.stash[isolation.LOGS])
    yield made
    if item.stash[UNFINISHED]:
        made.abandon()
        return
    try:
        made.close()
    except BaseException:
        made.abandon()
        raise


@pytest.fixture
def mount(rig):
    """A rig whose root is a mount. At the end the mount must have the content of the exported directory."""
    server = rig.serve()
    rig.root = rig.mnt
    rig.behind = rig.export
    rig.mount(server)
    return rig


@pytest.fixture
def tree(request, rig):
    """A rig whose root is a mount, or with --plain a directory."""
    if request.config.option.plain is None:
        return request.getfixturevalue("mount")
    rig.root = rig.base / "root"
    rig.root.mkdir()
    return rig
