"""What dafsctl is asked: about mounts, by any path, and about servers."""

import errno
import os
import signal
import subprocess

import processes
from rig import check, equal, errno_of, scenario


def ask(rig, *words, user=None, cwd="/"):
    """Runs dafsctl; returns (exit status, what it printed)."""
    status, text = rig.run([rig.bin / "dafsctl", *words], cwd=cwd, status=None, timeout=30, user=user)
    return status, text.strip()


@scenario(timeout=120, where="server")
def dafsctl_paths(rig):
    """dafsctl finds the mount of any path, and says of others why it does not."""
    rig.expect(".*")
    server = rig.serve()
    source = f"{rig.address}:{server.port}:/data"
    (rig.export / "dir").mkdir()
    link = rig.base / "link"
    link.symlink_to(rig.mnt)
    rig.run(rig.mount_command(source, rig.mnt.name), cwd=rig.mnt.parent)
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
    pid = next(iter(rig.daemons()))
    os.kill(pid, signal.SIGKILL)
    check(processes.wait_until(lambda: errno_of(os.listdir, rig.mnt) == errno.ENOTCONN, 15), "the mount is not dead")
    for path in (rig.mnt, link):
        status, text = ask(rig, "stats", path)
        equal(status, 1, f"exit status for a dead mount ({text})")
        check("dead" in text and f"umount {rig.mnt}" in text, f"the message for a dead mount: {text}")
    rig.run(["umount", rig.mnt], cwd="/")


@scenario(timeout=60, where="server")
def dafsctl_usage(rig):
    """A wrong command line of dafsctl is exit status 2 and one line that names what is wrong."""
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
    """dafsctl ping gives a silent server up after the time that it was given."""
    rig.expect(".*")
    server = rig.serve()
    os.kill(server.process.pid, signal.SIGSTOP)
    check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
    try:
        # Longer than what is given, shorter than the 10 s that it waited before: slow machines fail neither way.
        command = [rig.bin / "dafsctl", "ping", "-W", "0.1", f"{rig.address}:{server.port}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=8, check=False)
        equal(done.returncode, 1, f"exit status ({done.stdout})")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
