"""Waits for locks that the server announces: how long a lock takes from one mount to another, and what is sent."""

import errno
import json
import signal
import subprocess
import time

import processes
from actors import Actor
from rig import check, equal, note, scenario
from .locks import Stage


def _locks_sent(rig, point):
    """How many LOCK requests the mount has sent."""
    done = subprocess.run([rig.bin / "dafsctl", "status", "--json", point], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=30, check=True)
    return json.loads(done.stdout)["procedures"].get("LOCK", {"calls": 0})["calls"]


def _is_quiet(rig, point):
    """Whether the mount sends no LOCK for longer than a waiter that polls pauses."""
    before = _locks_sent(rig, point)
    time.sleep(0.3)
    return _locks_sent(rig, point) == before


def _leave(stage, *cast):
    for one in cast:
        one.end()
        stage.cast.remove(one)


@scenario(timeout=240, where="server", variants=True, alone=True)
def locks_pass(rig):
    """A lock passes between two mounts at once, and a waiter sends nothing while it waits."""
    rounds = 1000 if rig.full else 100
    with Stage(rig) as stage:
        a, b = stage.actor("one"), stage.actor("two")
        a.must("record", "f", "W")
        b.begin("record", "f", "W", 0, 0, True)
        check(b.waits(0.3), "did not wait")
        check(processes.wait_until(lambda: _is_quiet(rig, stage.second), 10), "the waiter polls")
        before = _locks_sent(rig, stage.second)
        check(b.waits(1), "did not wait")
        equal(_locks_sent(rig, stage.second), before, "LOCK requests after a second of waiting")
        a.must("record", "f", "U")
        equal(b.answer(5), 0, "the wait")
        b.must("record", "f", "U")
        sent = _locks_sent(rig, stage.rig.mnt) + _locks_sent(rig, stage.second)
        times = _pass(a, b, rounds)
        sent = _locks_sent(rig, stage.rig.mnt) + _locks_sent(rig, stage.second) - sent
        mean, late = sum(times) / len(times), sorted(times)[len(times) * 99 // 100]
        note(f"{rounds} passes: mean {mean * 1e3:.2f} ms, 99 % {late * 1e3:.2f} ms, {sent / rounds:.2f} LOCKs each")
        check(mean < 0.02 * rig.slowness, f"a lock takes {mean * 1e3:.1f} ms to pass")
        check(sent <= 3 * rounds + 10, f"{sent} LOCK requests for {rounds} passes")


def _pass(a, b, rounds):
    """Passes a lock between the two; returns the seconds from each unlock until the other has the lock."""
    times = []
    a.must("record", "f", "W")
    for _ in range(rounds):
        b.begin("record", "f", "W", 0, 0, True)
        check(b.waits(0.02), "did not wait")
        start = time.monotonic()
        a.begin("record", "f", "U")
        equal(b.answer(10), 0, "the wait")
        times.append(time.monotonic() - start)
        equal(a.answer(), 0, "unlock")
        a, b = b, a
    a.must("record", "f", "U")
    return times


@scenario(timeout=120, where="server", variants=True)
def locks_pass_queue(rig):
    """Many waiters for one range, on two mounts: each gets the lock, also if some are interrupted or killed."""
    with Stage(rig) as stage:
        holder = stage.actor("one")
        for kind in ("record", "ofd", "flock"):
            where = () if kind == "flock" else (0, 0)
            holder.must(kind, "f", "W")
            waiting = [stage.actor(("one", "two")[number % 2]) for number in range(10)]
            waiting[3].must("alarm", 0.5)
            for one in waiting:
                one.begin(kind, "f", "W", *where, True)
            check(waiting[-1].waits(), "did not wait")
            equal(waiting[3].answer(5), errno.EINTR, "the interrupted waiter")
            _leave(stage, waiting[3], waiting[4])
            del waiting[3:5]
            start = time.monotonic()
            holder.must(kind, "f", "U")
            while waiting:
                check(processes.wait_until(lambda: any(not one.waits(0.001) for one in waiting), 10, 0.001),
                      f"{kind}: no waiter got the lock")
                (first,) = [one for one in waiting if not one.waits(0.01)]
                equal(first.answer(), 0, f"{kind}: a wait")
                first.must(kind, "f", "U")
                waiting.remove(first)
                _leave(stage, first)
            check(time.monotonic() - start < 4 * rig.slowness, f"{kind}: {time.monotonic() - start:.1f} s for eight")


@scenario(timeout=120, where="server")
def locks_pass_restart(rig):
    """The server is killed while a process waits: the holder keeps its lock, and the waiter gets it afterwards."""
    with Stage(rig) as stage:
        rig.expect("lost", "no session", "void", "promises")
        holder, waiter = stage.actor("one"), stage.actor("two")
        for _ in range(2):
            holder.must("record", "f", "W")
            waiter.begin("record", "f", "W", 0, 0, True)
            check(waiter.waits(), "did not wait")
            stage.server.stop(signal.SIGKILL)
            stage.server.start()
            check(waiter.waits(1), "got a lock that the holder reclaims")
            holder.must("record", "f", "U")
            start = time.monotonic()
            equal(waiter.answer(30), 0, "the wait")
            check(time.monotonic() - start < 6 * rig.slowness, f"{time.monotonic() - start:.1f} s after the unlock")
            waiter.must("record", "f", "U")


@scenario(timeout=120, where="server")
def locks_pass_client_gone(rig):
    """The mount of a holder, or of the first waiter, is killed: the next waiter gets the lock."""
    with Stage(rig) as stage:
        rig.expect("lost", "no session", "expired", "has not reconnected", "promises", "took no part")
        third = rig.base / "third"
        third.mkdir()
        rig.mount(stage.server, point=third)
        stage.places["three"] = third
        holder, first, second = (stage.actor(place) for place in ("one", "three", "two"))
        holder.must("record", "f", "W")
        for one in (first, second):
            one.begin("record", "f", "W", 0, 0, True)
            check(one.waits(), "did not wait")
        _kill(rig, third)
        check(second.waits(0.5), "did not wait")
        start = time.monotonic()
        holder.must("record", "f", "U")
        equal(second.answer(10), 0, "the wait after a waiter whose mount was killed")
        check(time.monotonic() - start < 3 * rig.slowness, f"{time.monotonic() - start:.1f} s after the unlock")


def _kill(rig, point):
    rig.mounted[point].kill()
    rig.run(["umount", "-l", str(point)], cwd="/", timeout=20)
    rig.mounted.pop(point).wait()


@scenario(timeout=90, where="server")
def locks_pass_holder_gone(rig):
    """The mount of the holder is killed: a waiter on another mount gets the lock when the lease has run out."""
    server = rig.serve(arguments=["--lease-time", "2"])
    (rig.export / "f").write_bytes(b"x")
    second = rig.base / "second"
    second.mkdir()
    rig.expect("expired", "has not reconnected", "promises")
    rig.mount(server)
    rig.mount(server, point=second)
    holder, waiter = Actor(), Actor()
    for one, place in ((holder, rig.mnt), (waiter, second)):
        one.must("open", "f", str(place / "f"))
    holder.must("record", "f", "W")
    waiter.begin("record", "f", "W", 0, 0, True)
    check(waiter.waits(3), "got the lock of a mount that lives")
    _kill(rig, rig.mnt)
    start = time.monotonic()
    equal(waiter.answer(10), 0, "the wait")
    check(time.monotonic() - start < 5 * rig.slowness, f"{time.monotonic() - start:.1f} s after the mount was killed")
    for one in (holder, waiter):
        one.end()
