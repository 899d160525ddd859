"""Mounting on demand: the kernel's autofs, driven by its own protocol as systemd and automount(8) drive it."""

import fcntl
import os
import pathlib
import select
import shutil
import struct
import subprocess

import pytest

import processes
from rig import SOURCE, Failure, check, equal, free_port, scenario
from scenarios.operators.delivery import example_exports, example_fstab
from .mounting import Helper

# linux/auto_fs.h: ioctls on the root of the autofs mount, with the token of the request.
READY, FAIL = 0x9360, 0x9361
# autofs_v5_packet: version, type, token, dev, ino, uid, gid, pid, tgid, len; the name follows.
PACKET = struct.Struct("=iiIIQIIIII")
MISSING_DIRECT = 5


class Autofs:
    """An autofs on one directory. It never blocks its own process group, which is this program's."""

    def __init__(self, rig, point):
        if not any(line.split()[-1] == "autofs" for line in pathlib.Path("/proc/filesystems").open(encoding="ascii")):
            pytest.skip("the kernel has no autofs")
        self.point = point
        self.requests, answers = os.pipe()
        try:
            options = f"fd={answers},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
            # mount(8) keeps inherited descriptors; pass_fds lets it inherit this one.
            done = subprocess.run(["mount", "-i", "-t", "autofs", "-o", options, "dafs-test", point],
                                  pass_fds=[answers], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=20 * rig.slowness, check=False)
        finally:
            os.close(answers)
        if done.returncode != 0:
            os.close(self.requests)
            pytest.skip(f"autofs cannot be mounted: {done.stdout.decode(errors='replace').strip()}")
        self.root = os.open(point, os.O_RDONLY | os.O_DIRECTORY)

    def request(self, seconds):
        """Waits for a process that wants the directory; returns the token of the request."""
        if not select.select([self.requests], [], [], seconds)[0]:
            raise Failure(f"the kernel requested no mount of {self.point} within {seconds} s")
        packet = os.read(self.requests, 4096)
        _version, kind, token, *_ = PACKET.unpack_from(packet)
        equal(kind, MISSING_DIRECT, "kind of the kernel's request")
        return token

    def answer(self, token, mounted):
        fcntl.ioctl(self.root, READY if mounted else FAIL, token)

    def close(self):
        os.close(self.root)
        os.close(self.requests)
        subprocess.run(["umount", "-l", self.point], stdin=subprocess.DEVNULL, check=False)


@scenario(timeout=120, where="server")
def autofs(rig):
    """A program that enters an autofs directory gets the mount made for it, the second time too."""
    server = rig.serve()
    (rig.export / "file").write_text("on demand")
    demand = Autofs(rig, rig.mnt)
    try:
        for _ in range(2):
            reader = subprocess.Popen(["cat", rig.mnt / "file"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, cwd="/", start_new_session=True)
            token = demand.request(20 * rig.slowness)
            source = f"{rig.address}:{server.port}:/data"
            mounter = subprocess.Popen(rig.mount_command(source, rig.mnt), stdin=subprocess.DEVNULL, cwd="/")
            try:
                status = mounter.wait(20 * rig.slowness)
            except subprocess.TimeoutExpired:
                status = None
            demand.answer(token, status == 0)  # releases all programs that wait for the directory
            text = reader.communicate(timeout=20 * rig.slowness)[0].decode(errors="replace")
            if status is None:
                mounter.kill()
                mounter.wait()
                raise Failure("mount.dafs waits for the directory that it is to be mounted on")
            equal(status, 0, "exit status of mount.dafs")
            equal(text, "on demand", "what the program read that wanted the directory")
            rig.run(["umount", rig.mnt], cwd="/")
            check(processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness), "mount.dafs runs after umount")
    finally:
        demand.close()


SYSTEMD = "/lib/systemd/systemd"
GENERATOR = "/lib/systemd/system-generators/systemd-fstab-generator"

# Targets that the units name or that systemd adds to them. All are empty. The distribution's own would start services
# of a real machine, such as the one that empties /tmp.
TARGETS = ("sysinit", "basic", "shutdown", "umount", "network", "network-online", "local-fs-pre", "local-fs",
           "remote-fs-pre", "remote-fs", "multi-user")

# Process 1 of namespaces of its own. It sees no unit but those of this test.
START = """
mount --make-rprivate /
mount -t proc proc /proc
# Otherwise these copies would keep the mounts of other scenarios after their umount.
grep ' - fuse.dafs ' /proc/self/mountinfo | cut -d ' ' -f 5 | xargs -r -n 1 umount -cil
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 75
for place in /run /var/lib /var/log; do mount -t tmpfs tmpfs $place; done
mkdir -p /run/systemd/system /run/empty /run/lock
for place in /etc/systemd/system /lib/systemd/system; do
  mount --bind /run/empty $place || exit 75
done
cp {base}/units/* /run/systemd/system/
cd /run/systemd/system
SYSTEMD_FSTAB={base}/fstab {generator} $PWD $PWD $PWD || exit 75
container=dafs-test exec {systemd} --system --unit=trial.target --log-target=console --show-status=no
"""

# The steps of the trial: each prints its own name after it succeeds.
TRIAL = """
step() {{ echo "step $*"; }}
systemctl start dafsd.service && step served
systemctl is-active --quiet remote-fs-pre.target && step before
while IFS=' ' read -r point unit automount; do
  if [ "$automount" = yes ]; then
    systemctl start "$unit.automount" && step "armed $point"
  else
    timeout {patience} systemctl start "$unit.mount" && step "started $point"
  fi
  timeout {patience} cat "$point/hello" >/dev/null && step "read $point"
  timeout {patience} systemctl stop "$unit.mount" && step "stopped $point"
  if [ "$automount" = yes ]; then
    timeout {patience} cat "$point/hello" >/dev/null && step "again $point"
    systemctl stop "$unit.automount"
  fi
done <{base}/points.txt
systemctl stop dafsd.service
systemctl start --no-block "{late}.mount"
until systemctl status "{late}.mount" --no-pager -l -n 0 | grep -q activating; do sleep 0.1; done
systemctl start dafsd.service
timeout {patience} sh -c 'until systemctl is-active --quiet "$1"; do sleep 0.1; done' sh "{late}.mount" && step late
systemctl stop "{late}.mount"
"""


class Cgroup:
    """A cgroup of version 2 for one process tree, in which everything is killed at the end."""

    def __init__(self, name):
        places = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").open(encoding="utf-8")
                  if line.split()[2] == "cgroup2"]
        if not places:
            pytest.skip("no cgroup2 is mounted")
        self.path = pathlib.Path(places[0]) / name

    def __enter__(self):
        try:
            self.path.mkdir()
        except OSError as error:
            pytest.skip(f"{self.path}: {error.strerror}")
        return self.path / "cgroup.procs"

    def __exit__(self, *_):
        kill = self.path / "cgroup.kill"
        if kill.exists():
            kill.write_text("1")
        below = sorted((path for path in self.path.rglob("*") if path.is_dir()), reverse=True)
        for path in [*below, self.path]:
            processes.wait_until(lambda path=path: remove(path), 10)


def remove(directory):
    try:
        directory.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


@scenario(timeout=240, where="server", loopback=True)
def systemd(rig):
    """systemd starts dafsd by its unit and mounts the lines of man/examples/fstab, on demand and late ones too."""
    rig.need("systemctl", "unshare", "systemd-escape")
    if not os.access(SYSTEMD, os.X_OK) or not os.access(GENERATOR, os.X_OK):
        pytest.skip("systemd is not installed")
    port = free_port()
    lines = example_fstab(rig, port)
    (rig.base / "fstab").write_text("".join(" ".join(line) + "\n" for line in lines))
    units = rig.base / "units"
    units.mkdir()
    conf = rig.base / "dafsd.conf"
    conf.write_text(f"listen = tcp:127.0.0.1:{port}\n" +
                    "".join(f"export = {name}={directory},rw\n" for name, directory in example_exports(rig).items()))
    unit = (SOURCE / "man/systemd/dafsd.service.in").read_text()
    (units / "dafsd.service").write_text(unit.replace("@dafs_sbin@", str(rig.bin)).replace("/etc/dafsd.conf", str(conf)))
    for target in TARGETS:
        (units / f"{target}.target").write_text("[Unit]\n")
    (units / "trial.target").write_text("[Unit]\nDefaultDependencies=no\nWants=trial.service\n")
    (units / "trial.service").write_text(
        f"[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/bash {rig.base}/trial\n"
        f"StandardOutput=file:{rig.base}/steps\nStandardError=file:{rig.base}/errors\n"
        "ExecStopPost=/bin/systemctl --force --force poweroff\n")
    names = {}
    for _source, point, *_ in lines:
        names[point] = subprocess.check_output(["systemd-escape", "--path", point], text=True).strip()
    (rig.base / "points.txt").write_text("".join(
        f"{point} {names[point]} {'yes' if 'x-systemd.automount' in options else 'no'}\n"
        for _source, point, _kind, options, *_ in lines))
    late = [names[point] for _source, point, _kind, options, *_ in lines if "retry=" in options]
    equal(len(late), 1, "lines of man/examples/fstab with retry=")
    patience = 20 * rig.slowness
    (rig.base / "trial").write_text(TRIAL.format(base=rig.base, patience=patience, late=late[0]))
    (rig.base / "start").write_text(START.format(base=rig.base, generator=GENERATOR, systemd=SYSTEMD))
    log = rig.logs / "systemd.txt"
    with Helper(rig), Cgroup(f"dafs-test-{os.getpid()}") as members:
        with open(log, "wb") as output:
            inside = subprocess.Popen(
                ["sh", "-c", 'echo $$ >"$1"; exec unshare --mount --pid --cgroup --uts --ipc --fork --kill-child sh "$2"', "sh", members,
                 rig.base / "start"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")
        try:
            status = inside.wait(180 * rig.slowness)
        except subprocess.TimeoutExpired:
            status = None
            inside.kill()
            inside.wait()
    steps = rig.base / "steps"
    if not steps.exists():
        if status is None:
            raise Failure(f"systemd does not come to its first unit: {log.read_text(errors='replace')[-500:]}")
        pytest.skip(f"systemd does not run in namespaces here: {log.read_text(errors='replace')[-200:]}")
    for name in ("errors", "steps"):
        shutil.copy(rig.base / name, rig.logs / f"{name}.txt")
    wanted = ["served", "before", "late"]
    for _source, point, _kind, options, *_ in lines:
        on_demand = "x-systemd.automount" in options
        wanted += [f"armed {point}" if on_demand else f"started {point}", f"read {point}", f"stopped {point}"]
        wanted += [f"again {point}"] if on_demand else []
    done = {line.removeprefix("step ") for line in steps.read_text().splitlines()}
    missing = [step for step in wanted if step not in done]
    check(not missing, f"did not work under systemd: {missing}; {(rig.base / 'errors').read_text()[-300:]}")
