"""Fencing: dafsctl fence and fence_dafs shut mounts out, whatever their programs are doing."""

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import processes
from rig import SOURCE, check, equal, errno_of, scenario

# Writes its file again and again, until a call fails: then prints the error.
WRITER = """import errno, os, sys
path, number = sys.argv[1], int(sys.argv[2])
fd = os.open(path, os.O_RDWR)
print("begins", flush=True)
turn = 0
try:
    while True:
        turn += 1
        os.pwrite(fd, (b"%d-%d " % (number, turn)) * 4000, (turn % 8) * 4096)
        if turn % 4 == number % 4:
            os.fsync(fd)
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
"""
REFUSED = {"EACCES", "EIO"}  # EIO: fsync(2) of what was written behind


class Cluster:
    """Two nodes that mount /data of one server, and the administrator's dafsctl."""

    def __init__(self, rig, options=""):
        self.rig = rig
        self.options = options
        self.server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
        self.target = f"{rig.address}:{self.server.port}:/data"
        self.second = rig.base / "mnt2"
        self.second.mkdir()
        self.writers = []

    def mount(self, node, point, options=""):
        words = ",".join(word for word in (self.options, f"fence_id={node}", options) if word)
        return self.rig.mount(self.server, words, point=point)

    def fence(self, word, *ids, path="", status=0, more=()):
        return self.rig.run([self.rig.bin / "dafsctl", "fence", word, *more, self.target + path, *ids], cwd="/",
                            timeout=60, status=status)

    def write(self, point, names):
        """Starts a writer for each file, and waits until all of them have begun."""
        for number, name in enumerate(names):
            self.writers.append(subprocess.Popen([sys.executable, "-c", WRITER, point / name, str(number)], cwd="/",
                                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
        for writer in self.writers:
            equal(writer.stdout.readline().strip(), "begins", "a writer")

    def end_of_writers(self):
        """Returns the errors with which the writers ended."""
        errors = [writer.stdout.readline().strip() for writer in self.writers]
        for writer in self.writers:
            writer.stdout.close()
            writer.wait(20)
        return errors


def two_nodes(rig):
    """Mounts node1 and node2, with a list that admits both. Returns the cluster and the two mount points."""
    cluster = Cluster(rig)
    first = cluster.mount("node1", rig.mnt)
    second = cluster.mount("node2", cluster.second)
    cluster.fence("init", "node1", "node2")
    return cluster, first, second


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def fenced_lines(rig):
    log = (rig.logs / "mount.dafs.log").read_text(errors="replace")
    return [line for line in log.splitlines() if "fenced off" in line]


@scenario(timeout=120, where="server")
def fenced_writers(rig):
    """Writers of a node are denied while they write: after the answer nothing changes any more, and another node works on.

    Shows DAFS-4.4.4.1-01, DAFS-4.4.4.4-04, DAFS-4.4.4.4-05, FAST03-3.2-02, FAST03-3.2-03.
    """
    rig.expect(r"fenced off", r"lost|EACCES|ACCES")
    names = [f"f{number}" for number in range(32 if rig.full else 8)]
    for name in names + ["of-node2"]:
        (rig.export / name).write_bytes(b"-" * 65536)
    cluster, first, second = two_nodes(rig)
    cluster.write(first, names)
    time.sleep(0.5)
    cluster.fence("deny", "node1")
    before = content(rig.export)
    check(any(before[name][:1] != b"-" for name in names), "no writer has written anything")
    (second / "of-node2").write_bytes(b"node2")  # a bystander
    before["of-node2"] = b"node2"
    time.sleep(5 if rig.full else 1)
    check(content(rig.export) == before, "a file has changed after the denial was confirmed")
    errors = set(cluster.end_of_writers())
    check(errors <= REFUSED, f"errors of the writers: {errors}")
    equal(errno_of(os.stat, first / "f0"), errno.EACCES, "errno of stat on the node that is fenced off")
    equal(errno_of(os.listdir, first), errno.EACCES, "errno of its listing")
    equal(errno_of((first / "new").write_text, "x"), errno.EACCES, "errno of its creation")
    equal(len(fenced_lines(rig)), 1, "log lines of the mount that say it is fenced off")
    (second / "f0").write_bytes(b"repaired")
    cluster.fence("allow", "node1")
    equal((first / "f0").read_bytes(), b"repaired", "what the node reads when it is admitted again")
    (first / "f1").write_bytes(b"again")
    equal((rig.export / "f1").read_bytes(), b"again", "what it has written then")
    cluster.fence("init")


@scenario(timeout=120, where="server", long_only=True)
def fenced_while_stopped(rig):
    """A node stops in the middle of its writes and is fenced off; when it wakes, all that it sends is refused."""
    rig.expect(r"fenced off", r"lost|EACCES|ACCES")
    names = [f"f{number}" for number in range(4)]
    for name in names:
        (rig.export / name).write_bytes(b"-" * 65536)
    cluster, first, second = two_nodes(rig)
    cluster.write(first, names)
    time.sleep(0.3)
    stopped = rig.mounted[first].pid
    os.kill(stopped, signal.SIGSTOP)
    try:
        check(processes.wait_until(lambda: processes.stopped(stopped), 10), "the mount does not stop")
        start = time.monotonic()
        cluster.fence("deny", "node1")
        took = time.monotonic() - start
        check(took < 10 * rig.slowness, f"the denial of a stopped node took {took:.1f} s")
        start = time.monotonic()
        for name in names:  # the stopped node may have delegations of them
            (second / name).write_bytes(b"repaired")
        took = time.monotonic() - start
        # The first change waits once for --recall-time (10 s): the node may have cached attributes.
        check(took < 20 * rig.slowness, f"the repair waited {took:.1f} s for the stopped node")
    finally:
        os.kill(stopped, signal.SIGCONT)
    errors = set(cluster.end_of_writers())
    check(errors <= REFUSED, f"errors of the writers: {errors}")
    equal(set(content(rig.export).values()), {b"repaired"}, "the files after the node woke")
    equal(errno_of(os.stat, first / "f0"), errno.EACCES, "errno of the node that woke")
    cluster.fence("init")


@scenario(timeout=120, where="server")
def fenced_over_restarts(rig):
    """Lists survive kill -9 of the server; those of a file and of its file system both hold.

    Shows DAFS-4.4.4.3-02, DAFS-4.4.4.2-01, FAST03-3.2-04.
    """
    rig.expect(r"fenced off", r"lost|EACCES|ACCES|session")
    for name in ("f", "g"):
        (rig.export / name).write_text("content")
    cluster = Cluster(rig)
    first = cluster.mount("node1", rig.mnt)
    second = cluster.mount("node2", cluster.second)
    equal(cluster.fence("show"), "no list: every client has access\n", "dafsctl fence show without a list")
    cluster.fence("init", "node1", "node2")
    cluster.fence("init", "node2", path="/f")
    equal(cluster.fence("show", path="/f"), "node2\noperator\n", "the list of the file")
    report = json.loads(cluster.fence("show", more=["--json"]))
    equal((report["object"], report["ids"]), ("file system", ["node1", "node2", "operator"]), "dafsctl fence show --json")
    for kill in (False, True):
        if kill:
            cluster.server.stop(signal.SIGKILL)
            cluster.server.start()
        equal(errno_of((first / "f").read_text), errno.EACCES, "errno of node1 at the file")
        equal((first / "g").read_text(), "content", "node1 beside it")
        equal((second / "f").read_text(), "content", "node2 at the file")
    text = cluster.fence("deny", "node2", "operator", path="/f", status=None)
    check(text[0] == 1 and "never runs empty" in text[1], f"a list that would run empty: {text}")
    cluster.fence("init", path="/f")
    equal((first / "f").read_text(), "content", "node1 without a list of the file")
    cluster.fence("init")


AGENT = SOURCE / "share" / "fence-agent" / "fence_dafs"


@scenario(timeout=120, where="server")
def fence_agent(rig):
    """fence_dafs, the agent for Pacemaker, against a real server: metadata, status, off, on, monitor and list."""
    library = pathlib.Path("/usr/share/fence/fencing.py")
    if not library.exists():
        rig.need("fence_dafs-needs-the-package-fence-agents")
    rig.expect(r"fenced off", r"lost|EACCES|ACCES")
    (rig.export / "f").write_text("content")
    cluster, first, second = two_nodes(rig)
    environment = dict(os.environ, PATH=f"{rig.bin}:{os.environ['PATH']}")
    common = [f"--ip={rig.address}:{cluster.server.port}", "--export=/data"]

    def agent(action, *more, status=0):
        return rig.run([AGENT, f"--action={action}", *common, *more], cwd="/", env=environment,
                       timeout=60, status=status, merge=False)

    metadata = agent("metadata")
    check('<resource-agent name="fence_dafs"' in metadata and '<action name="off"' in metadata, metadata[:400])
    agent("monitor")
    equal(agent("list").split(), ["node1,node1", "node2,node2", "operator,operator"], "the nodes of the agent")
    equal(agent("status", "--plug=node1").strip(), "Status: ON", "status of node1")
    agent("off", "--plug=node1")
    equal(agent("status", "--plug=node1", status=None)[0], 2, "exit status of status for a node that is off")
    equal(errno_of((first / "f").read_text), errno.EACCES, "errno of node1 after off")
    equal((second / "f").read_text(), "content", "node2")
    agent("off", "--plug=node1")  # again
    agent("on", "--plug=node1")
    equal((first / "f").read_text(), "content", "node1 after on")
    unreachable = [f"--ip={rig.address}:{cluster.server.port},127.0.0.1:1", "--export=/data"]
    done = rig.run([AGENT, "--action=off", *unreachable, "--plug=node1", "--power-timeout=5"], cwd="/",
                   env=environment, timeout=60, status=None)
    check(done[0] != 0, "off succeeds although one of the servers did not answer")
    cluster.fence("init")


# Shows the agent in /usr/sbin to the programs of a mount namespace.
AS_INSTALLED = """set -e
mount --make-rprivate /
mount -t overlay -o lowerdir=/usr/sbin,upperdir=$1/upper,workdir=$1/work overlay /usr/sbin
cp "$2" /usr/sbin/fence_dafs
stonith_admin --metadata --agent fence_dafs
"""


@scenario(timeout=60, where="server", long_only=True)
def fence_agent_of_pacemaker(rig):
    """Pacemaker's own tool runs the agent, and what it prints is valid XML."""
    rig.need("stonith_admin", "xmllint", "unshare")
    for name in ("upper", "work"):
        (rig.local / name).mkdir()
    text = rig.run(["unshare", "-m", "bash", "-c", AS_INSTALLED, "-", rig.local, AGENT], cwd="/", merge=False)
    metadata = rig.local / "metadata.xml"
    metadata.write_text(text)
    rig.run(["xmllint", "--noout", metadata], cwd="/")
    check('<action name="monitor"' in text, text[:400])
