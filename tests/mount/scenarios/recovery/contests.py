"""Programs on several mounts contend for the same names while dafsd is killed: one program makes each change, and sees
that it did.

In `recover_kill` each program has a directory of its own. Here the response to a repeated request could be the response
to another program's request. No program may take its own change for another's, or another's for its own.
"""

import errno
import multiprocessing
import os
import threading
import time

import processes
from rig import Failure, check, equal, note, scenario

from scenarios.sharing.appends import check_records, record
from .failures import drawn_moments, kill, mount_twice

CONTEXT = multiprocessing.get_context("fork")
PER_SECOND = 100  # rounds at most
LARGEST = 200_000  # bytes of a record: also such that the server fetches


def create(at, number, _me):
    os.close(os.open(at / f"create{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def make_directory(at, number, _me):
    os.mkdir(at / f"make_directory{number}")


def make_link(at, number, _me):
    os.link(at / "linked", at / f"make_link{number}")


def make_symlink(at, number, me):
    os.symlink(str(me), at / f"make_symlink{number}")


def rename(at, number, me):
    os.rename(at / f"rename{number}", at / f"renamed{number}-{me}")


def unlink(at, number, _me):
    os.unlink(at / f"unlink{number}")


def remove_directory(at, number, _me):
    os.rmdir(at / f"remove_directory{number}")


# The contests, and the errno for each program that comes too late.
CONTESTS = {create: errno.EEXIST, make_directory: errno.EEXIST, make_link: errno.EEXIST, make_symlink: errno.EEXIST,
            rename: errno.ENOENT, unlink: errno.ENOENT, remove_directory: errno.ENOENT}


def prepare(export, rounds):
    """Makes the files and directories that the programs rename and remove."""
    (export / "linked").touch()
    (export / "log").touch()
    for number in range(rounds):
        (export / f"rename{number}").touch()
        (export / f"unlink{number}").touch()
        (export / f"remove_directory{number}").mkdir()


class Program:
    """A process that contends or appends, until the group stops."""

    def __init__(self, group, action, at, me):
        self.group, self.action, self.at, self.me = group, action, at, me
        self.done = CONTEXT.Value("L", 0)
        self.results, self.sender = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=self.main, daemon=True)
        self.process.start()

    def main(self):
        result, failure = None, ""
        try:
            result = self.action(self)
        except (OSError, Failure) as error:
            failure = f"{self.action.__name__} {self.me}: {error}"
            self.group.failed.value = 1
            self.group.barrier.abort()
        self.sender.send((result, failure))

    def contend(self):
        """Returns the numbers of the rounds that it won."""
        won = {contest.__name__: [] for contest in CONTESTS}
        for number in range(self.group.rounds):
            try:
                self.group.barrier.wait()  # all begin a round at once
            except threading.BrokenBarrierError:
                break  # a program has failed
            if self.group.ended.value:
                break
            for contest, too_late in CONTESTS.items():
                try:
                    contest(self.at, number, self.me)
                    won[contest.__name__].append(number)
                except OSError as error:
                    if error.errno != too_late:
                        raise Failure(f"{contest.__name__} {number}: {error}") from error
            self.done.value += 1
            time.sleep(1 / PER_SECOND)
        return won

    def append(self):
        """Returns how many records it has appended."""
        while not self.group.stop.is_set():
            with open(self.at / "log", "ab", buffering=0) as log:
                for _ in range(5):
                    wanted = record(self.me, self.done.value, LARGEST)
                    equal(log.write(wanted), len(wanted), "bytes of an append")
                    self.done.value += 1
                os.fsync(log.fileno())
            time.sleep(0.1)
        return self.done.value


class Group:
    """Two contenders and two writers on each of `points`."""

    def __init__(self, points, rounds):
        self.rounds = rounds
        self.stop = CONTEXT.Event()
        self.ended = CONTEXT.Value("b", 0)
        self.failed = CONTEXT.Value("b", 0)
        places = list(enumerate(tuple(points) * 2))
        self.barrier = CONTEXT.Barrier(len(places), self.decide)
        self.contenders = [Program(self, Program.contend, point, me) for me, point in places]
        self.writers = [Program(self, Program.append, point, me) for me, point in places]

    def decide(self):
        """Run by one of the contenders, for all, before a round."""
        self.ended.value = self.stop.is_set()

    def changes(self):
        return [one.done.value for one in self.contenders + self.writers]

    def finish(self, seconds):
        """Returns the rounds that each contender won, and the number of records that each writer appended."""
        self.stop.set()
        answers = []
        for one in self.contenders + self.writers:
            if not one.results.poll(seconds):
                raise Failure(f"a change hangs: {one.action.__name__} {one.me} of {self.changes()}")
            answers.append(one.results.recv())
            one.process.join(10)
        failures = [failure for _, failure in answers if failure]
        check(not failures, f"a program saw an error: {failures}")
        results = [result for result, _ in answers]
        return results[:len(self.contenders)], results[len(self.contenders):]


def check_contests(export, won, rounds):
    """Checks that each of `rounds` of each contest has one winner, and that the export shows the winner's change."""
    for contest in CONTESTS:
        winners = {}
        for me, mine in enumerate(won):
            for number in mine[contest.__name__]:
                winners.setdefault(number, []).append(me)
        wrong = {number: winners.get(number) for number in range(rounds) if len(winners.get(number, ())) != 1}
        check(not wrong and len(winners) == rounds, f"{contest.__name__} was done by: {wrong}")
        for number, (me,) in winners.items():
            made = export / f"{contest.__name__}{number}"
            equal(os.path.lexists(made), CONTESTS[contest] == errno.EEXIST, f"{made.name} exists")
            if contest is make_symlink:
                equal(os.readlink(made), str(me), f"whose {made.name} is")
            if contest is rename:
                check((export / f"renamed{number}-{me}").exists(), f"{made.name} is not where {me} has moved it")
    equal(sum(name.startswith("renamed") for name in os.listdir(export)), rounds, "files that were moved")
    equal(os.stat(export / "linked").st_nlink, 1 + rounds, "links")


@scenario(timeout=900, where="server")
def recover_contests(rig):
    """Programs on two mounts contend for names and append to one file while dafsd is killed: each change is one's, once."""
    rig.expect("session with .* lost", "not connected", "no session for", "new session")
    seconds = 60 if rig.full else 15
    prepare(rig.export, seconds * PER_SECOND)
    _, moments = drawn_moments()
    server, other = mount_twice(rig)
    group = Group((rig.mnt, other), seconds * PER_SECOND)
    end = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < end and not group.failed.value:
        time.sleep(moments.uniform(1, 3))
        kill(server)
        kills += 1
        time.sleep(moments.choice((0, 0.3)))
        before = group.changes()
        server.start()
        if not processes.wait_until(lambda: group.failed.value or all(
                one.done.value > count or one.done.value == group.rounds
                for one, count in zip(group.contenders + group.writers, before)), 90 * rig.slowness):
            raise Failure(f"kill {kills}: no change in 90 s: {group.changes()}")
    won, appended = group.finish(60 * rig.slowness)
    rounds = group.contenders[0].done.value
    check(rounds > 0 and all(one.done.value == rounds for one in group.contenders), "rounds that not all have ended")
    check_contests(rig.export, won, rounds)
    check_records((rig.export / "log").read_bytes(), len(appended), appended, LARGEST)
    note(f"{kills} kills, {rounds} rounds, won by each {[sum(map(len, mine.values())) for mine in won]}, "
         f"records {appended}")
    rig.umount(other)
