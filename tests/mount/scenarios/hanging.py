"""An export whose file system hangs: its own requests wait, those of other exports do not."""

import contextlib
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
    """A FUSE file system at `middle`, of the files in `backing`, and the exports of a server that serves it as /hung
    beside /data. It hangs while its own server, `inner`, is stopped."""

    def __init__(self, rig):
        self.backing, self.middle = rig.base / "backing", rig.base / "middle"
        for directory in (self.backing, self.middle):
            directory.mkdir()
        (self.backing / "seen").write_text("seen")
        self.inner = rig.serve([f"/inner={self.backing},no_root_squash"])
        rig.mount(self.inner, "noac", export="/inner", point=self.middle)
        self.exports = [f"/hung={self.middle},no_root_squash,handles=lasting", f"/data={rig.export},no_root_squash"]

    @contextlib.contextmanager
    def hangs(self):
        os.kill(self.inner.process.pid, signal.SIGSTOP)
        try:
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
    rig.umount(hanging.middle)


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
    check(orphans.exists(), "the removed file that is open has no name among the orphans")
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
    check(processes.wait_until(lambda: not orphans.exists(), 30), "the removed file was not released")
    for peer in (lookup, opener, by_handle, witness, again):
        peer.close()
    server.stop()
    rig.umount(hanging.middle)


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
    rig.umount(hanging.middle)


@scenario(timeout=120, where="server")
def hung_start(rig):
    """A server that starts while an export hangs names that export, ends by SIGTERM, and serves in the end."""
    hanging = Hanging(rig)
    server = Server(rig, hanging.exports)
    rig.servers.append(server)
    said = f"export /hung={hanging.middle}: no answer for 5s"

    def waits():
        return server.log.exists() and said in server.log.read_text()

    with hanging.hangs():
        process = server.start().process
        check(processes.wait_until(waits, 15 * rig.slowness), "the server does not say what it waits for")
        process.terminate()
        equal(process.wait(10 * rig.slowness), 0, "exit status of a server that SIGTERM ends at its start")
        server.log.unlink()
        server.start()
        check(processes.wait_until(waits, 15 * rig.slowness), "the server does not say what it waits for")
    check(processes.wait_until(lambda: " exports on " in server.log.read_text(), 15 * rig.slowness),
          "the server does not serve though its exports answer")
    check(f"export /hung={hanging.middle}: answered after" in server.log.read_text(), "the end of the wait is not said")
    rig.mount(server, export="/hung")
    equal((rig.mnt / "seen").read_text(), "seen", "a file of the export that hung")
    rig.umount()
    server.stop()
    rig.umount(hanging.middle)
