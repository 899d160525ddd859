"""The logs of server and mount: one short line for each event, with its reason and its remedy."""

import errno
import os
import re
import signal
import socket

import processes
from rig import check, equal, errno_of, scenario
from scenarios.mounting.mounting import refused


def _lines(server, text):
    return [line for line in server.log.read_text(errors="replace").splitlines() if text in line]


def _await(server, text, count=1):
    check(processes.wait_until(lambda: len(_lines(server, text)) >= count, 10 * server.rig.slowness),
          f"no line says {text!r}: {server.log.read_text()}")
    return _lines(server, text)[-1]


@scenario(timeout=60, where="server", loopback=True)
def log_of_refusals(rig):
    """The server logs a client that it refuses and an export that it lacks, with the remedy."""
    other = rig.base / "other"
    other.mkdir()
    server = rig.serve([f"/data={rig.export}", f"/denied={other},clients=10.0.0.0/8"])
    for export in ("/missing", "/denied"):
        rig.run(rig.mount_command(f"{rig.address}:{server.port}:{export}", rig.mnt, "soft"), cwd="/", status=None)
        check(not os.path.ismount(rig.mnt), f"{export} was mounted")
    missing, denied = _await(server, "no export /missing"), _await(server, "export /denied")
    check("/data, /denied" in missing and f" at {rig.address}:" in missing, missing)
    check("clients=" in denied and f" at {rig.address}:" in denied, denied)
    stranger = rig.serve([f"/denied={other},clients=10.0.0.0/8"])
    rig.run(rig.mount_command(f"{rig.address}:{stranger.port}:/denied", rig.mnt, "soft"), cwd="/", status=None)
    check("clients=" in _await(stranger, "refused: no export admits its address"), "no remedy")
    equal(len(_lines(stranger, "refused")), 1, "lines about one refusal")


@scenario(timeout=60, where="server", loopback=True)
def log_of_hidden_exports(rig):
    """A mount of the directory of exports logs why it has no export; the server logs why it lists only some."""
    rig.expect("refused")
    (rig.export / "file").write_text("data")
    kept = rig.base / "kept"
    kept.mkdir()
    server = rig.serve([f"/open/data={rig.export}", f"/kept={kept},secure", f"/deep/kept={kept},secure"])
    rig.mount(server, "noresvport", export="/")
    equal(os.listdir(rig.mnt), ["open"], "exports for a client without a reserved port")
    check("insecure" in _await(server, "takes only clients with a port below 1024"), "no remedy")
    equal((rig.mnt / "open/data/file").read_text(), "data", "a file of an export that is shown")
    equal(errno_of(os.listdir, rig.mnt / "deep"), errno.EACCES, "a directory that leads to a secure export alone")
    rig.umount()
    status, line = refused(rig, f"{rig.address}:{server.port}:/deep", "noresvport")
    check(status == 1 and "port below 1024" in line, line)
    elsewhere = rig.serve([f"/data={rig.export},clients=10.0.0.0/8"])
    status, line = refused(rig, f"{rig.address}:{elsewhere.port}:/")
    check(status == 1 and "clients=" in line, line)


@scenario(timeout=60, where="server", loopback=True)
def log_of_mounts(rig):
    """Each log line of a mount names its server and export; if the server is lost, also the mount's next step."""
    rig.expect("session")
    server = rig.serve()
    rig.mount(server)
    log = rig.logs / "mount.dafs.log"

    def wait_for(pattern):
        check(processes.wait_until(lambda: re.search(pattern, log.read_text()), 10 * rig.slowness),
              f"no line says {pattern!r}: {log.read_text()}")

    server.stop()
    wait_for(r"session with .* lost: .*; reconnecting\n")
    wait_for(r"no session for .*; retrying\n")
    server.start()
    wait_for("new session with ")
    process = rig.mounted.pop(rig.mnt)
    process.send_signal(signal.SIGTERM)
    process.wait(10 * rig.slowness)
    wait_for("ended by a signal")
    for line in log.read_text().splitlines():
        check(f"{rig.address}:{server.port}:/data" in line, f"a line does not say of which mount it is: {line}")


@scenario(timeout=60, where="server", loopback=True)
def log_of_endings(rig):
    """The server's log shows if a client unmounted or was killed; a mount logs one line of at most 120 characters."""
    server = rig.serve()
    rig.mount(server)
    rig.umount()
    line = _await(server, "disconnected")
    name = f"{socket.gethostname()}:{rig.mnt}"[:80]  # the server cuts it there
    check(f"client {name} at {rig.address}:" in line, line)
    equal(_lines(server, " lost: "), [], "clients lost by umount")
    rig.mount(server)
    process = rig.mounted.pop(rig.mnt)
    process.send_signal(signal.SIGKILL)
    process.wait()
    rig.run(["umount", "-l", rig.mnt], cwd="/", status=None)
    # Reset if an answer of the server had not been read. Its connections end in any order.
    line = _await(server, " lost: ")
    check(re.search("lost: (connection closed without disconnect|receive: Connection reset by peer|"
                    "the Back-control Channel of this session has ended)", line), line)
    lines = [line for line in (rig.logs / "mount.dafs.log").read_text().splitlines() if " mounted " in line]
    check(lines, "no line says what was mounted")
    for line in lines:
        check(str(rig.mnt) in line and len(line.replace(str(rig.mnt), "/mnt")) <= 120, f"{len(line)}: {line}")
