"""Commands to an existing mount or server: dafsctl, and mount -o remount."""

import errno
import json
import os
import signal
import subprocess

import pytest

import processes
from rig import check, equal, errno_of, scenario
from scenarios.mounting.mounting import Helper, entry
from scenarios.sharing.locks import Stage


def ask(rig, *words, user=None, cwd="/"):
    """Runs dafsctl; returns (exit status, output)."""
    status, text = rig.run([rig.bin / "dafsctl", *words], cwd=cwd, status=None, timeout=30, user=user)
    return status, text.strip()


@scenario(timeout=120, where="server")
def dafsctl_paths(rig):
    """dafsctl finds the mount of any path; for a path on no mount it reports the reason."""
    rig.expect(".*")
    server = rig.serve()
    source = f"{rig.address}:{server.port}:/data"
    (rig.export / "dir").mkdir()
    link = rig.base / "link"
    link.symlink_to(rig.mnt)
    rig.run(rig.mount_command(source, rig.mnt.name, "noguardian"), cwd=rig.mnt.parent)
    for path in (rig.mnt, rig.mnt / "dir", rig.mnt / "dir" / "absent", link, f"{rig.mnt}/"):
        status, text = ask(rig, "status", path)
        equal(status, 0, f"exit status for {path} ({text})")
        check(source in text and str(rig.mnt) in text, f"the answer for {path} is of another mount: {text}")
    status, text = ask(rig, "status", rig.mnt.name, cwd=rig.mnt.parent)
    equal(status, 0, f"exit status for a relative path ({text})")
    for path, word in ((rig.local, "not on a DAFS mount"), (rig.base / "absent", "no such file")):
        status, text = ask(rig, "status", path)
        equal((status, text.count("\n")), (1, 0), f"exit status and further lines for {path}")
        check(word in text and str(path) in text, f"the message for {path}: {text}")
    for path in ((rig.mnt,), ()):
        status, text = ask(rig, "status", *path, user=65534)
        equal(status, 1, f"exit status for another user ({text})")
        check("only root" in text, f"the message for another user: {text}")
    os.stat(rig.mnt)  # the kernel knows the attributes of the root for a while
    pid = next(iter(rig.daemons()))
    os.kill(pid, signal.SIGSTOP)
    try:
        check(processes.wait_until(lambda: processes.stopped(pid), 10), "mount.dafs does not stop")
        status, text = ask(rig, "status", rig.mnt)
    finally:
        os.kill(pid, signal.SIGCONT)
    equal(status, 1, f"exit status for a mount.dafs that hangs ({text})")
    check("does not answer" in text and str(rig.mnt) in text, f"the message for a mount.dafs that hangs: {text}")
    os.kill(pid, signal.SIGKILL)
    check(processes.wait_until(lambda: errno_of(os.listdir, rig.mnt) == errno.ENOTCONN, 15), "the mount is not dead")
    for path in (rig.mnt, link):
        status, text = ask(rig, "stats", path)
        equal(status, 1, f"exit status for a dead mount ({text})")
        check("dead" in text and f"umount {rig.mnt}" in text, f"the message for a dead mount: {text}")
    status, line = rig.run(rig.mount_command(source, rig.mnt), cwd="/", status=None)
    equal(status, 32, f"exit status of a mount on a dead mount ({line})")
    check("dead mount" in line and f"umount {rig.mnt}" in line, f"the message for a mount on a dead mount: {line}")
    rig.run(["umount", rig.mnt], cwd="/")


@scenario(timeout=60, where="server")
def dafsctl_usage(rig):
    """For a wrong command line dafsctl ends with status 2 and prints one line that names the mistake."""
    for words, word in ((("bogus",), "bogus"), ((), "no command"), (("--bogus",), "bogus"), (("ping",), "SERVER"),
                        (("status", "/", "/tmp"), "/tmp"), (("ping", "-W", "soon", "x"), "soon")):
        status, text = ask(rig, *words)
        equal(status, 2, f"exit status of dafsctl {words} ({text})")
        check(word in text and text.startswith("dafsctl: "), f"dafsctl {words}: {text}")
    for flag in ("--version", "-V"):
        status, text = ask(rig, flag)
        equal(status, 0, f"exit status of {flag}")
        check(text.startswith("dafsctl ") and text[8].isdigit(), f"{flag}: {text}")


@scenario(timeout=60, where="server")
def ping_silent(rig):
    """dafsctl ping gives up a silent server after the given time."""
    rig.expect(".*")
    server = rig.serve()
    os.kill(server.process.pid, signal.SIGSTOP)
    check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
    try:
        # 8 s is far more than the command needs with -W 0.1, and less than 10 s. A slow machine fails neither limit.
        command = [rig.bin / "dafsctl", "ping", "-W", "0.1", f"{rig.address}:{server.port}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=8, check=False)
        equal(done.returncode, 1, f"exit status ({done.stdout})")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@scenario(timeout=120, where="server", loopback=True)
def remount(rig):
    """remount changes ro and nosuid, and names each option that it refuses to change."""
    if rig.options:
        pytest.skip("the options of this run would be among those that are compared")
    server = rig.serve()
    source = f"127.0.0.1:{server.port}:/data"
    table = rig.local / "fstab"
    table.write_text(f"{source} {rig.mnt} dafs _netdev,nofail,nconnect=2,retry=0 0 0\n")

    def flags():
        return set(entry(rig.mnt)[3].split(","))

    with Helper(rig):
        rig.run(["mount", "-T", table, rig.mnt], cwd="/")
        # By directory alone; by the line of fstab; by everything.
        for words in ([], ["-T", table], ["-t", "dafs", source]):
            for options, shown in (("ro", {"ro"}), ("rw,nosuid", {"rw", "nosuid"}), ("rw,suid", {"rw"})):
                rig.run(["mount", *words[:2], "-o", f"remount,{options}", *words[2:], rig.mnt], cwd="/")
                check(shown <= flags() and ("nosuid" in shown) == ("nosuid" in flags()), f"{words} {options}: {flags()}")
            for option in ("noac", "soft", "nconnect=4", "rsize=65536", "bogus"):
                status, text = rig.run(["mount", *words[:2], "-o", f"remount,ro,{option}", *words[2:], rig.mnt], cwd="/",
                                       status=None)
                equal(status, 32, f"exit status of {words} remount,{option} ({text.strip()})")
                check(f"cannot change {option}" in text, f"{words} remount,{option}: {text.strip()}")
                check("rw" in flags(), f"{words} remount,{option} was refused and made the mount read-only")
        rig.run(["umount", rig.mnt], cwd="/")
        status, text = rig.run([rig.bin / "mount.dafs", source, rig.local, "-o", "remount,ro"], cwd="/", status=None)
        equal(status, 32, f"exit status of a remount of no mount ({text.strip()})")
        check("no DAFS mount" in text, f"remount of no mount: {text.strip()}")


@scenario(timeout=120, where="server")
def server_status(rig):
    """dafsctl server shows the mounts, an open file, the holder of its lock and the waiter; only root may ask."""
    with Stage(rig) as stage:

        def server(*words, user=None):
            return ask(rig, "server", *words, "--socket", stage.server.socket, user=user)

        def report(*words):
            status, text = server(*words, "--json")
            equal(status, 0, f"exit status of dafsctl server {words} ({text})")
            return json.loads(text)

        holder, waiter = stage.actor("one"), stage.actor("two")
        holder.must("record", "f", "W", 10, 5)
        waiter.begin("record", "f", "R", 0, 0, True)
        check(processes.wait_until(lambda: report("status")["lock_waiters"] == 1, 20), "no waiter is shown")
        status = report("status")
        equal((status["clients"], status["locks"]), (2, 1), "clients and locks")
        check(status["opens"] >= 2, f"the opens are missing: {status}")
        clients = {client["mount_point"]: client for client in report("clients")["clients"]}
        equal(set(clients), {str(rig.mnt), str(stage.second)}, "mount points of the clients")
        for client in clients.values():
            equal(client["host"], os.uname().nodename, "host of a client")
            check(client["requests"] > 0 and client["sessions"], f"a client without requests or sessions: {client}")
        equal(clients[str(rig.mnt)]["locks"], 1, "locks of the holder's mount")
        file = str(rig.export / "f")
        for words in (("locks", file), ("locks", rig.export), ("locks",)):
            locks = report(*words)["locks"]
            equal([(lock["state"], lock["file"], lock["type"]) for lock in locks],
                  [("held", file, "write"), ("waits", file, "read")], f"dafsctl server {words}")
            equal((locks[0]["first"], locks[0]["last"]), (10, 14), "the range of the lock")
            check(str(rig.mnt) in locks[0]["client"] and str(stage.second) in locks[1]["client"], f"clients: {locks}")
        equal({opened["file"] for opened in report("opens", file)["opens"]}, {file}, "open files")
        equal(report("opens", rig.export / "g")["opens"], [], "opens of a file that is not open")
        equal([one["directory"] for one in report("exports")["exports"]], [str(rig.export)], "exports")
        for words in (("status",), ("clients",), ("opens",), ("locks",), ("exports",)):
            status, text = server(*words)
            equal(status, 0, f"exit status of dafsctl server {words} ({text})")
            check(text and "{" not in text, f"dafsctl server {words}: {text}")
        status, text = server("status", user=65534)
        equal(status, 1, f"exit status for another user ({text})")
        check("only root and the group dafs" in text, f"the message for another user: {text}")
        holder.must("record", "f", "U")
        equal(waiter.answer(), 0, "the lock of the waiter")
        for words, word in ((("server",), "subcommand"), (("server", "bogus"), "bogus"), (("server", "log"), "LEVEL")):
            status, text = ask(rig, *words)
            equal(status, 2, f"exit status of dafsctl {words} ({text})")
            check(word in text and text.startswith("dafsctl: "), f"dafsctl {words}: {text}")
    rig.servers[0].stop()
    check(not stage.server.socket.exists(), "the socket is still there after the end of dafsd")
    status, text = ask(rig, "server", "status", "--socket", stage.server.socket)
    equal(status, 1, f"exit status without a server ({text})")
    check("no dafsd answers" in text, f"the message without a server: {text}")
