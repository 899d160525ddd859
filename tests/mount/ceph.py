"""A small Ceph (scripts/ceph-in-memory) whose file system several heads mount, each with a ceph-fuse of its own."""

import contextlib
import os
import shutil
import subprocess

import pytest

import processes
from rig import SOURCE, Failure, check, free_port

SCRIPT = SOURCE / "scripts/ceph-in-memory"


class Head:
    """A machine as CephFS sees it: a ceph-fuse. `point` is its mount."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.point = cluster.rig.base / name
        self.point.mkdir()
        self.process = None

    def mount(self):
        with open(self.cluster.rig.logs / f"{self.name}.out", "ab") as log:
            self.process = subprocess.Popen(["ceph-fuse", "-f", "--conf", self.cluster.conf, "-n", f"client.{self.name}",
                                             str(self.point), "-o", "allow_other"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd="/", start_new_session=True)
        check(processes.wait_until(lambda: os.path.ismount(self.point) or self.process.poll() is not None, 60)
              and self.process.poll() is None, f"ceph-fuse does not mount {self.point}")
        return self

    def crash(self):
        """Ends ceph-fuse as a crash of its machine does: it does not end its session with the MDS."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process = None
        subprocess.run(["umount", "--lazy", str(self.point)], check=False, stderr=subprocess.DEVNULL)

    def evict(self):
        """Fences a head: CephFS takes nothing from it any more, and its locks fall."""
        self.cluster.ceph("tell", "mds.a", "client", "evict", f"client_metadata.entity_id={self.name}")


class Cluster:
    def __init__(self, rig):
        self.rig = rig
        self.directory = rig.base / "ceph"
        self.conf = str(self.directory / "ceph.conf")
        self.heads = []

    def ceph(self, *words):
        done = subprocess.run(["ceph", "--conf", self.conf, "--connect-timeout", "20", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        check(done.returncode == 0, f"ceph {' '.join(words)}: {done.stderr.decode(errors='replace')[-200:]}")
        return done.stdout.decode()

    def head(self, name):
        self.heads.append(Head(self, name))
        return self.heads[-1].mount()


@contextlib.contextmanager
def ceph_cluster(rig):
    for program in ("ceph", "ceph-mon", "ceph-osd", "ceph-mds", "ceph-fuse"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: scripts/install-packages ceph")
    cluster = Cluster(rig)
    done = subprocess.run([SCRIPT, "start", cluster.directory, str(free_port())], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
    if done.returncode != 0:
        raise Failure(f"ceph-in-memory: {done.stdout.decode(errors='replace')[-1500:]}")
    try:
        yield cluster
    finally:
        for server in rig.servers:
            if server.process is not None:
                server.process.kill()
                server.process.wait()
                server.process = None
        for head in cluster.heads:
            head.crash()
        subprocess.run([SCRIPT, "stop", cluster.directory], check=False)
