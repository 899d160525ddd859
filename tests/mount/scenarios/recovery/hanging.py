"""An export whose file system hangs: its own requests wait, those of other exports do not."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess

import processes
from peer import Peer
from rig import Server, check, equal, scenario

ASKERS = {
    "stat": "os.stat(path + '/seen')",
    "lookup": "os.path.exists(path + f'/absent{number}')",
    "read": "open(path + f'/f{number}').read()",
    "write": "open(path + f'/new{number}', 'w').write('x')",
    "list": "os.listdir(path + f'/d{number}')",
    "remove": "os.unlink(path + f'/gone{number}')",
}
WORK = """import os, sys
path = sys.argv[1]
for i in range(20):
    with open(f"{path}/f{i}", "w") as file:
        file.write("x" * 100000)
        file.flush()
        os.fsync(file.fileno())
assert len(os.listdir(path)) == 21, os.listdir(path)
for i in range(20):
    os.rename(f"{path}/f{i}", f"{path}/g{i}")
    assert len(open(f"{path}/g{i}").read()) == 100000
with open(f"{path}/cold") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert len(file.read()) == 1 << 20
for i in range(20):
    os.unlink(f"{path}/g{i}")
os.listdir(os.path.dirname(path))
"""


class Hanging:
    """A directory `middle` in a FUSE file system, of the files in `backing`, and the exports of a server that serves it
    as /hung beside /data. It hangs while the server of the file system, `inner`, is stopped.

    It is not the root of that file system: there `inner` reserves the name of the orphan directory, so that the server
    of /hung could not make its own."""

    def __init__(self, rig):
        inner, self.mount = rig.base / "inner", rig.base / "mount"
        self.backing, self.middle = inner / "middle", self.mount / "middle"
        for directory in (inner, self.mount, self.backing):
            directory.mkdir()
        (self.backing / "seen").write_text("seen")
        self.inner = rig.serve([f"/inner={inner},no_root_squash"])
        rig.mount(self.inner, "noac", export="/inner", point=self.mount)
        self.exports = [f"/hung={self.middle},no_root_squash,handles=lasting", f"/data={rig.export},no_root_squash"]

    @contextlib.contextmanager
    def hangs(self):
        os.kill(self.inner.process.pid, signal.SIGSTOP)
        try:
            check(processes.wait_until(lambda: processes.stopped(self.inner.process.pid), 10), "the inner server does not stop")
            yield
        finally:
            os.kill(self.inner.process.pid, signal.SIGCONT)


@scenario(timeout=180, where="server")
def hung_backing(rig):
    """While the file system of one export hangs, more requests wait than a server has threads; others are served."""
    count = 24
    hanging, hung = Hanging(rig), rig.base / "hung"
    backing = hanging.backing
    hung.mkdir()
    for number in range(count):
        (backing / f"f{number}").write_text("f")
        (backing / f"gone{number}").write_text("gone")
        (backing / f"d{number}").mkdir()
    (rig.export / "work").mkdir()
    (rig.export / "work" / "cold").write_bytes(b"c" * (1 << 20))
    server = rig.serve(hanging.exports, arguments=["--threads", "1"])
    rig.mount(server, "noac", export="/hung", point=hung)
    rig.mount(server, "noac")
    equal((hung / "seen").read_text(), "seen", "a file of the export that will hang")
    askers = []
    try:
        with hanging.hangs():
            for number in range(count):
                what = list(ASKERS.values())[number % len(ASKERS)]
                code = f"import os\npath, number = {str(hung)!r}, {number}\nprint('asks', flush=True)\n{what}\n"
                askers.append(subprocess.Popen(["python3", "-c", code], cwd="/", stdin=subprocess.DEVNULL,
                                               stdout=subprocess.PIPE))
            for asker in askers:
                asker.stdout.readline()
            rig.run(["python3", "-c", WORK, rig.mnt / "work"], cwd="/", timeout=30)
            waiting = sum(asker.poll() is None for asker in askers)
            check(waiting > 8, f"only {waiting} requests wait: the server has as many threads for disks")
    finally:
        ended = processes.wait_until(lambda: all(asker.poll() is not None for asker in askers), 60)
        for asker in askers:
            if asker.poll() is None:
                asker.kill()
    check(ended, "a request still waits although its file system works again")
    equal([asker.returncode for asker in askers], [0] * count, "exit statuses of what waited")
    equal(sorted(name for name in os.listdir(backing) if name.startswith("new")),
          sorted(f"new{number}" for number in range(count) if number % len(ASKERS) == 3), "what was made")
    for point in (hung, rig.mnt):
        rig.umount(point)
    server.stop()
    rig.umount(hanging.mount)


@scenario(timeout=120, where="server", loopback=True)
def hung_paths(rig):
    """Requests that enter a hanging export by a path, or only release opens there, delay no other client."""
    hanging = Hanging(rig)
    server = rig.serve(hanging.exports, arguments=["--threads", "1"])

    def client(name, verifier=b"verifier"):
        peer = Peer(server.port, name=name, verifier=verifier, requests=8)
        peer.act_as()
        return peer

    names = ("lookup", "open", "open by handle", "witness")
    lookup, opener, by_handle, witness = (client(name) for name in names)
    root, data = witness.root(), witness.walk("data")
    holder = client("holder", b"before  ")
    directory = holder.walk("hung")
    holder.opened(directory, "removed")
    holder.must(holder.remove(directory, "removed"))
    orphans = hanging.backing / ".dafsd-orphans"
    equal(len(os.listdir(orphans)), 1, "number of removed files that are open")
    with hanging.hangs():
        waiting = {"LOOKUP from the root": (lookup, lookup.lookup(root, ["hung", "absent"])),
                   "OPEN from the root": (opener, opener.open(root, ["hung", "seen"])),
                   "OPEN": (by_handle, by_handle.open(directory, ["seen"]))}
        for peer, request in waiting.values():
            peer.submit(request)
            witness.must(witness.getattr(data))
        for what, (peer, _) in waiting.items():
            check(not select.select([peer.connection.socket], [], [], 0)[0], f"{what} does not wait for the export")
        again = client("holder", b"after   ")  # releases the opens of its predecessor
        witness.must(witness.getattr(data))
        again.must(again.getattr(data))
    statuses = {what: peer.result().status for what, (peer, _) in waiting.items()}
    equal(statuses, {"LOOKUP from the root": "NOENT", "OPEN from the root": "OK", "OPEN": "OK"}, "what waited")
    check(processes.wait_until(lambda: not os.listdir(orphans), 30), "the removed file was not released")
    for peer in (lookup, opener, by_handle, witness, again):
        peer.close()
    server.stop()
    rig.umount(hanging.mount)


@scenario(timeout=120, where="server")
def hung_stop(rig):
    """A server whose export hangs ends within seconds of SIGTERM, names the export, and keeps the others' data."""
    rig.expect("no answer", "session .* lost")
    hanging, hung = Hanging(rig), rig.base / "hung"
    hung.mkdir()
    server = rig.serve(hanging.exports)
    rig.mount(server, "noac", export="/hung", point=hung)
    rig.mount(server)
    equal((hung / "seen").read_text(), "seen", "a file of the export that will hang")
    kept = open(rig.mnt / "kept", "w", encoding="ascii")  # pylint: disable=consider-using-with
    askers = []
    with hanging.hangs():
        for what in ("os.stat(path + '/seen')", "os.listdir(path)"):
            code = f"import os\npath = {str(hung)!r}\nprint('asks', flush=True)\n{what}\n"
            askers.append(subprocess.Popen(["python3", "-c", code], cwd="/", stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE))
            askers[-1].stdout.readline()
        kept.write("acknowledged")
        kept.flush()
        os.fsync(kept.fileno())
        os.unlink(rig.mnt / "kept")
        (rig.mnt / "new").mkdir()
        server.stop()
        log = server.log.read_text()
        check(f"export /hung={hanging.middle}: no answer; dafsd ends without" in log, f"the log does not say what hangs: {log[-500:]}")
        check("/data" not in log[log.index("stopping"):], "the log says that another export hangs")
    server.start()
    kept.write(", and more")  # the open of a file without a name is reclaimed
    kept.flush()
    os.fsync(kept.fileno())
    check((rig.mnt / "new").is_dir(), "a directory that was made is lost")
    for asker in askers:
        equal(asker.wait(60), 0, "exit status of what waited")
    kept.close()
    for point in (hung, rig.mnt):
        rig.umount(point)
    server.stop()
    rig.umount(hanging.mount)


def started_while(rig, hanging, arguments=()):
    """A server that is started while /hung hangs, and serves /data."""
    server = Server(rig, hanging.exports, arguments)
    rig.servers.append(server)
    return start_again(rig, hanging, server)


def start_again(rig, hanging, server):
    before = server.log.read_text().count(" exports on ") if server.log.exists() else 0
    server.start()
    check(processes.wait_until(lambda: server.log.read_text().count(" exports on ") > before, 15 * rig.slowness),
          "the server serves nothing while one export hangs")
    check(f"export /hung={hanging.middle}: no answer for 2s; its clients wait" in server.log.read_text(),
          "the server does not say what it waits for")
    return server


@scenario(timeout=120, where="server")
def hung_start(rig):
    """A server that starts while an export hangs names it, serves the others, and serves it when it answers."""
    hanging, hung = Hanging(rig), rig.base / "hung"
    (rig.export / "work").mkdir()
    (rig.export / "work" / "cold").write_bytes(b"c" * (1 << 20))
    hung.mkdir()
    rig.expect("no answer")
    with hanging.hangs():
        server = started_while(rig, hanging)
        rig.mount(server)
        rig.run(["python3", "-c", WORK, rig.mnt / "work"], cwd="/", timeout=30)
        rig.umount()
        server.stop()
        check(f"export /hung={hanging.middle}: not served since the start" in server.log.read_text(),
              "the log does not say what hangs at the stop")
        start_again(rig, hanging, server)
        rig.mount(server)
        source = f"{rig.address}:{server.port}:/hung"
        refused = subprocess.run(rig.mount_command(source, hung, "soft,timeo=20"), stdin=subprocess.DEVNULL,
                                 capture_output=True, cwd="/", timeout=60, check=False)
        check(refused.returncode != 0, "a soft mount of an export that hangs succeeds")
        check(b"the server asked to wait" in refused.stderr, f"the mount does not say what it waits for: {refused.stderr}")
        waiting = subprocess.Popen(rig.mount_command(source, hung, "retry=2"), stdin=subprocess.DEVNULL, cwd="/")
        rig.run(["python3", "-c", WORK, rig.mnt / "work"], cwd="/", timeout=30)
        equal(waiting.poll(), None, "exit status of a mount while its export hangs")
    equal(waiting.wait(30 * rig.slowness), 0, "exit status of the mount that waited")
    check(f"export /hung={hanging.middle}: answered after" in server.log.read_text(), "the end of the wait is not said")
    equal((hung / "seen").read_text(), "seen", "a file of the export that hung")
    subprocess.run(["umount", hung], check=True, timeout=20)
    rig.umount()
    server.stop()
    rig.umount(hanging.mount)


@scenario(timeout=180, where="server", loopback=True)
def hung_start_reclaim(rig):
    """An export that hangs at the start keeps its locks and its removed open files until it answers."""
    rig.expect("session with .* lost", "no session for", "no answer", "session .* lost")
    grace = 8 * rig.slowness  # longer than the client pauses between two attempts
    hanging, hung = Hanging(rig), rig.base / "hung"
    hung.mkdir()
    (rig.export / "plain").write_text("plain")
    server = Server(rig, hanging.exports, ["--grace-time", str(grace), "--lease-time", str(20 * rig.slowness)])
    rig.servers.append(server)
    server.start()
    rig.mount(server, "noac", export="/hung", point=hung)
    rig.mount(server)
    held = open(hung / "held", "w", encoding="ascii")  # pylint: disable=consider-using-with
    fcntl.lockf(held, fcntl.LOCK_EX)
    removed = open(hung / "removed", "w+b", buffering=0)  # pylint: disable=consider-using-with
    os.unlink(hung / "removed")
    os.fsync(removed.fileno())
    orphans = hanging.backing / ".dafsd-orphans"
    equal(len(os.listdir(orphans)), 1, "number of removed files that are open")
    for _ in range(2):  # the second start has not seen that export since the first
        with hanging.hangs():
            server.stop(signal.SIGKILL)
            start_again(rig, hanging, server)
            other = Peer(server.port, name="other")
            other.act_as()
            data = other.walk("data")
            (rig.mnt / "mine").write_text("served")
            # After the period of /data: what waits for it no longer does.
            check(processes.wait_until(lambda: other.call(other.open(data, ["plain"], deny=1)).status == "OK",
                                       10 * grace), "an open in another export waits for the one that hangs")
            equal(other.call(other.lookup(other.root(), ["hung"])).status, "DELAY", "a lookup of the export that hangs")
            other.close()
    other = Peer(server.port, name="other")
    other.act_as()
    look_up = other.lookup(other.root(), ["hung"])
    check(processes.wait_until(lambda: other.call(look_up).status == "OK", 20 * rig.slowness),
          "the export is not served though it answers")
    hung_root = other.walk("hung")
    file, state = other.opened(hung_root, "held", owner=b"other")
    answers = []

    def denied():
        answers.append(other.call(other.lock(file, state, length=10)).status)
        return answers[-1] != "GRACE"

    check(processes.wait_until(denied, 3 * grace), f"the grace period of the export does not end: {set(answers)}")
    equal(answers[-1], "DENIED", "the answer to a lock that conflicts with one from before the restart")
    held.write("still mine")
    held.close()
    equal((hanging.backing / "held").read_text(), "still mine", "what was written under the lock")
    removed.write(b"still here")
    os.fsync(removed.fileno())
    equal(os.pread(removed.fileno(), 20, 0), b"still here", "what was written to the removed file")
    removed.close()
    check(processes.wait_until(lambda: not os.listdir(orphans), 10 * rig.slowness), "the removed file outlives its last close")
    check("could not be reclaimed" not in (rig.logs / "mount.dafs.log").read_text(), "an open was lost")
    other.close()
    for point in (hung, rig.mnt):
        rig.umount(point)
    server.stop()
    rig.umount(hanging.mount)


@scenario(timeout=120, where="server", loopback=True)
def hung_start_outcome(rig):
    """The outcome of a removal in an export that hangs at the start is known only after it answers."""
    rig.expect("no answer")
    hanging = Hanging(rig)
    (hanging.backing / "victim").write_text("once")
    server = rig.serve(hanging.exports, ["--kill-at", "REMOVE:called"])
    peer = Peer(server.port, name="c", cache=1, requests=8)
    peer.act_as()
    hung = peer.walk("hung")
    session, number = peer.session_id, peer.next_seq.setdefault(3, 5)
    peer.submit(peer.remove(hung, "victim"), stream=3)
    server.process.wait(20 * rig.slowness)
    peer.connection.close()
    check(not (hanging.backing / "victim").exists(), "the file was not removed")
    server.arguments = []
    server.process = None
    with hanging.hangs():
        start_again(rig, hanging, server)
        peer = Peer(server.port, name="c", cache=1, requests=8)
        peer.act_as()

        def ask(kind, stream=3, sequence=number):
            return peer.call(peer.response_of(kind, session, stream, sequence, "REMOVE")).status

        for kind in ("CHECK_RESPONSE", "FETCH_RESPONSE"):
            equal(ask(kind), "DELAY", f"{kind} while the export hangs")
            equal(ask(kind, stream=4), "NOXID_MATCH", f"{kind} of a stream without a request")
        peer.must(peer.getattr(peer.walk("data")))
    check(processes.wait_until(lambda: ask("CHECK_RESPONSE") != "DELAY", 20 * rig.slowness),
          "the outcome stays unknown")
    equal([ask("CHECK_RESPONSE"), ask("FETCH_RESPONSE")], ["OK", "OK"], "the outcome of the removal")
    peer.close()
    server.stop()
    rig.umount(hanging.mount)


@scenario(timeout=120, where="server")
def hung_start_refused(rig):
    """An export that cannot be served when it answers is logged, disturbs no other, and is served when it can be."""
    rig.expect("no answer", "its clients wait", "session .* lost", "no session for",
               "ended", "Transport endpoint")
    hanging, hung = Hanging(rig), rig.base / "hung"
    hung.mkdir()
    with hanging.hangs():
        server = started_while(rig, hanging)
        rig.mount(server)
        process = rig.mounted.pop(hanging.mount)
        process.kill()
        process.wait()
        check(processes.wait_until(lambda: "its clients wait until it can be served" in server.log.read_text(), 20 * rig.slowness),
              "the refusal is not logged")
        source = f"{rig.address}:{server.port}:/hung"
        status = subprocess.run(rig.mount_command(source, hung, "soft,timeo=20"),
                                stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=60, check=False)
        check(status.returncode != 0, "an export that cannot be served is mounted")
        (rig.mnt / "file").write_text("other exports are served")
    subprocess.run(["umount", "-l", hanging.mount], check=True, timeout=20)
    hanging.middle.mkdir()
    (hanging.middle / "below").write_text("below")
    rig.mount(server, "retry=1", export="/hung", point=hung)
    equal((hung / "below").read_text(), "below", "a file of the repaired export")
    for point in (hung, rig.mnt):
        rig.umount(point)
    server.stop()
