"""Random calls of many processes on three mounts of one export, while programs and connections fail at random moments.

Each call has the result that it has on a local directory, and all files are the same at the end: no fault is noticed
except as a pause. Two of the mounts show the same files to each group of processes, the third is used alone.
"""

import contextlib
import os
import signal
import subprocess
import time

import processes
import proxy
from rig import Failure, check, note, scenario

from scenarios.files.ranges import PROGRAM
from scenarios.operators.control import ask
from .failures import drawn_moments
from .restarting import need_survival, program_of, restart, restarts_of

SECONDS = float(os.environ.get("DAFS_FAULTS_SECONDS", "120"))  # of each scenario
GUARDED = "guardian,nconnect=2"
LONGEST_STOP = 3  # seconds; a mount that is silent for --recall-time shows what it has cached


class Place:
    """Three mounts of one export, each through a proxy of its own if `relayed`."""

    def __init__(self, rig, relayed):
        self.rig = rig
        self.server = rig.serve([f"/data={rig.export},rw,no_root_squash,changed_by=clients"])
        self.relays = []
        self.points = []
        for name, options in (("here", "nowrite_behind"), ("there", "nowrite_behind"), ("alone", "")):
            point = rig.base / name
            point.mkdir()
            behind = self.server
            if relayed:
                behind = proxy.Proxy(self.server.port)
                self.relays.append(behind)
            self.points.append(rig.mount(behind, f"{GUARDED},{options}", point=point))
        self.turn = 0

    def next_point(self):
        """The mounts one after another: the guardian gives up after thirty kills of one within a minute."""
        self.turn += 1
        return self.points[self.turn % len(self.points)]

    def kill_program(self):
        pid = program_of(self.rig, self.next_point())
        if pid != 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def kill_mounts(place, chance):
    place.kill_program()
    time.sleep(chance.choice((1, 1, 1, 0.1)))


def restart_mounts(place, chance):
    with contextlib.suppress(Failure):  # refused, while the one before is not complete
        restart(place.rig, point=place.next_point())
    time.sleep(chance.random())


def kill_server(place, chance):
    place.server.stop(signal.SIGKILL)
    time.sleep(chance.choice((0, 0.1, 1)))
    place.server.start()
    time.sleep(1 + 2 * chance.random())


def kill_both(place, chance):
    """In either order, and a program that continues a mount may be killed before the server is back."""
    def kill_programs():
        for _ in range(chance.choice((1, 1, 3))):
            place.kill_program()

    before = chance.random() < .5
    if before:
        kill_programs()
        time.sleep(chance.choice((0, 0, 0.05)))
    place.server.stop(signal.SIGKILL)
    if not before:
        time.sleep(chance.choice((0, 0, 0.05)))
        kill_programs()
    if chance.random() < .4:
        time.sleep(0.3 + chance.random())
        kill_programs()
    place.server.start()
    if chance.random() < .4:
        time.sleep(chance.random() / 2)
        kill_programs()
    time.sleep(2 + 2 * chance.random())


def cut(place, chance):
    relay = chance.choice(place.relays)
    relay.break_after(chance.randrange(2), chance.randrange(1, 60), chance.choice((proxy.CUT, proxy.RESET)))
    time.sleep(chance.random() / 2)


def stop(place, chance):
    pid = chance.choice((place.server.process.pid, program_of(place.rig, place.next_point())))
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(LONGEST_STOP * chance.random() ** 3)
    finally:
        os.kill(pid, signal.SIGCONT)
    time.sleep(chance.random())


def run(rig, *faults, relayed=False):
    """Runs the processes for SECONDS, with `faults` one after another at the same time."""
    rig.expect(".*")
    seed, chance = drawn_moments()
    place = Place(rig, relayed)
    here, there, alone = place.points
    loads = [(["--beside", there / "a", here / "a"], "3", "a"), ([alone / "b"], "2", "b")]
    programs = []
    for roots, groups, name in loads:
        (here / name).mkdir()
        plain = rig.local / name
        plain.mkdir()
        words = [PROGRAM, "--seed", f"{seed}", "--locks", "--seconds", SECONDS, "--ops", 10_000_000, "--pause", 20,
                 "--groups", groups, *roots, plain]
        with open(rig.logs / f"model-{name}.log", "wb") as log:
            programs.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    groups = sum(int(number) for _, number, _ in loads)
    check(processes.wait_until(lambda: len(list(rig.local.glob("*/group-*"))) == groups, 60 * rig.slowness, 0.1),
          "the groups do not begin")
    end = time.monotonic() + SECONDS
    count = 0
    while time.monotonic() < end and all(program.poll() is None for program in programs):
        chance.choice(faults)(place, chance)
        count += 1
    last = time.monotonic() + 120 * rig.slowness
    for program in programs:
        try:
            program.wait(max(last - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            for point in place.points:
                ask(rig, "status", point)
            for what in ("status", "clients"):
                ask(rig, "server", what, "--socket", place.server.socket)
            raise Failure("a call does not end after the last fault") from None
    for name in ("a", "b"):
        note((rig.logs / f"model-{name}.log").read_text(errors="replace"))
    note(f"{count} faults; restarts of the mounts: {[restarts_of(rig, point) for point in place.points]}")
    check(all(program.returncode == 0 for program in programs), "a call had another result than on the local directory")
    check(count > SECONDS / 10, f"{count} faults")
    for point in place.points:
        rig.root, rig.behind = point, rig.export
        # A restarted server keeps removed open files until its grace period is over.
        rig.check_content(patience=120 * rig.slowness)
    rig.check_idle()
    for point in place.points:
        rig.umount(point)
    rig.root = rig.behind = None
    for relay in place.relays:
        relay.close()


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_mounts(rig):
    """A mount.dafs is killed each second."""
    need_survival()
    run(rig, kill_mounts)


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_server(rig):
    """dafsd is killed every three seconds."""
    run(rig, kill_server)


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_both(rig):
    """mount.dafs and dafsd are killed at the same time, in any order."""
    need_survival()
    run(rig, kill_both)


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_connections(rig):
    """Connections are cut and reset."""
    run(rig, cut, relayed=True)


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_all(rig):
    """Connections are cut, and programs are killed, restarted and stopped."""
    need_survival()
    run(rig, cut, cut, cut, kill_mounts, restart_mounts, kill_both, stop, relayed=True)


@scenario(timeout=3600, where="server", long_only=True)
def random_faults_of_stops(rig):
    """dafsd or a mount.dafs stops for a while."""
    run(rig, stop)
