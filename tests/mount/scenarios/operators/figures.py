"""Reports of mounts and servers about their load: dafsctl stats, top, iostat, log and doctor, and slow operations."""

import json
import os
import signal
import subprocess
import sys

import processes
from rig import check, equal, scenario
from .control import ask


def report(rig, *words):
    status, text = ask(rig, *words, "--json")
    equal(status, 0, f"exit status of dafsctl {words} ({text})")
    return json.loads(text)


@scenario(timeout=120, where="server")
def counted_calls(rig):
    """Mount and server count the same reads and writes, with their bytes and times; top and iostat show them."""
    server = rig.serve()
    rig.mount(server)
    (rig.mnt / "f").write_bytes(os.urandom(3 << 20))
    os.sync()
    with open(rig.export / "g", "wb") as other:
        other.write(os.urandom(2 << 20))
    equal(len((rig.mnt / "g").read_bytes()), 2 << 20, "bytes read")
    at_mount = report(rig, "stats", rig.mnt)
    at_server = report(rig, "server", "stats", "--socket", server.socket)
    equal(at_mount["bucket_bounds_us"], at_server["bucket_bounds_us"], "bounds of the buckets")
    check(at_server["sessions"]["opened"] >= 2, f"sessions: {at_server['sessions']}")
    for name in ("READ_DIRECT", "WRITE_DIRECT", "WRITE_INLINE", "READ_INLINE"):
        if name not in at_mount["procedures"]:
            continue
        mine, theirs = at_mount["procedures"][name], at_server["procedures"][name]
        for one, other in (("calls", "calls"), ("errors", "errors"), ("sent_bytes", "received_bytes"),
                           ("received_bytes", "sent_bytes")):
            equal(mine[one], theirs[other], f"{one} of {name} at the mount, {other} at the server")
        for totals in (mine, theirs):
            equal(sum(totals["buckets"]), totals["calls"], f"times of {name}")
            check(totals["p50_us"] <= totals["p99_us"] <= totals["longest_us"] <= totals["total_us"], f"{totals}")
    moved = {way: sum(at_mount["procedures"].get(name, {}).get(way, 0) for name in names) for way, names in (
        ("received_bytes", ("READ_DIRECT", "READ_INLINE")), ("sent_bytes", ("WRITE_DIRECT", "WRITE_INLINE")))}
    check(moved["received_bytes"] >= 2 << 20 and moved["sent_bytes"] >= 3 << 20, f"too few bytes: {moved}")
    status, text = ask(rig, "iostat", "--mount", rig.mnt)
    equal(status, 0, f"exit status of iostat ({text})")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    for row in ("read", "write", "all"):
        check(row in rows and float(rows[row][1]) > 0, f"iostat has no {row}: {text}")
    status, text = ask(rig, "top", "-b", "-n", "2", "-d", "0.2", "--socket", server.socket, "--mount", rig.mnt)
    equal(status, 0, f"exit status of top ({text})")
    equal(text.count("CREDITS"), 2, f"reports of top: {text}")
    check(str(rig.mnt) in text and "CLIENT" in text and "\033" not in text, f"top: {text}")


@scenario(timeout=120, where="server")
def slow_operations(rig):
    """A read that waits for a stopped server is shown with its file and process, and logged when it ends."""
    rig.expect(".*")
    server = rig.serve()
    rig.mount(server, "slow=200")
    (rig.export / "dir").mkdir()
    (rig.export / "dir" / "file").write_bytes(b"x" * 4096)
    with open(rig.mnt / "dir" / "file", "rb", buffering=0) as file:
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
            reader = subprocess.Popen([sys.executable, "-c", "import os; os.pread(0, 4096, 0)"], stdin=file)
            found = processes.wait_until(lambda: report(rig, "status", rig.mnt)["calls"], 20)
            check(found, "the read that waits is not shown")
            call = report(rig, "status", rig.mnt)["calls"][0]
            equal((call["operation"], call["file"], call["uid"]), ("READ", "/dir/file", 0), "the operation that waits")
            equal(call["process"], process_name(reader.pid), "the process that waits")
            status, text = ask(rig, "status", rig.mnt)
            check(f"READ of /dir/file by {call['process']} (pid {call['pid']}, uid 0)" in text, f"status: {text}")
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
    equal(reader.wait(30), 0, "exit status of the reader")
    log = rig.logs / "mount.dafs.log"
    check(processes.wait_until(lambda: "slow: READ of /dir/file by " in log.read_text(), 10), "no slow read is logged")
    line = next(line for line in log.read_text().splitlines() if "slow: READ of" in line)
    check("at the server (READ_" in line and "for a slot" in line, f"the time is not divided: {line}")
    check(report(rig, "status", rig.mnt)["slow_operations"] > 0, "slow operations are not counted")


def process_name(pid):
    """The name of a process."""
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
        return file.read().strip()


@scenario(timeout=60, where="server")
def log_levels(rig):
    """The level of the log changes while mount and server run."""
    server = rig.serve()
    rig.mount(server)
    for words in (("log", "debug", rig.mnt), ("server", "log", "debug", "--socket", server.socket)):
        status, text = ask(rig, *words)
        equal((status, text), (0, "log level set to debug"), f"dafsctl {words}")
    equal(report(rig, "status", rig.mnt)["log_level"], "debug", "level of the mount")
    equal(report(rig, "server", "status", "--socket", server.socket)["log_level"], "debug", "level of the server")
    status, text = ask(rig, "log", "loud", rig.mnt)
    equal(status, 1, f"exit status for an unknown level ({text})")
    check("error, warning, notice, info or debug" in text, f"the message for an unknown level: {text}")


@scenario(timeout=60, where="server")
def doctor(rig):
    """dafsctl doctor opens a session with a server, and names a remedy where it cannot; its exit status says so."""
    server = rig.serve()
    place = f"{rig.address}:{server.port}"
    check(processes.wait_until(lambda: ask(rig, "server", "status", "--socket", server.socket)[0] == 0, 20),
          "dafsd does not answer")
    status, text = ask(rig, "doctor", place, "--socket", server.socket, "--json")
    checks = {one["check"]: one for one in json.loads(text)["checks"]}
    equal(status, max(("ok", "warning", "failed").index(one["verdict"]) for one in checks.values()), "exit status")
    for name in ("fuse", "route", "port", "protocol"):
        equal(checks[name]["verdict"], "ok", f"{name}: {checks[name]}")
    check(str(rig.export) in checks["export"]["found"], f"the export is not checked: {checks}")
    server.stop()
    status, text = ask(rig, "doctor", place, "--socket", server.socket)
    equal(status, 2, f"exit status without a server ({text})")
    check("failed   port" in text and "start dafsd" in text, f"doctor without a server: {text}")
    status, text = ask(rig, "doctor", "--root", rig.local)
    equal(status, 2, f"exit status without /dev/fuse ({text})")
    check("modprobe fuse" in text, f"doctor without /dev/fuse: {text}")
