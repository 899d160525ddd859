"""A mount that begins before its server: retry=, fg and bg."""

import os
import signal
import subprocess

import processes
from rig import Failure, check, equal, free_port, scenario
from .mounting import refused


def mounting(rig, port, options, flags=()):
    """Starts a mount; its server may start later."""
    return subprocess.Popen(rig.mount_command(f"{rig.address}:{port}:/data", rig.mnt, options) + list(flags),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                            start_new_session=True)


@scenario(timeout=180, where="server")
def late_server(rig):
    """In the foreground and in the background, mount.dafs retries until the server answers."""
    rig.expect(".*")
    (rig.export / "hello").write_text("at last")
    for options, flags in (("retry=1", ()), ("fg,retry=1", ("-f",)), ("bg,retry=1", ())):
        port = free_port()
        command = mounting(rig, port, options, flags)
        line = command.stdout.readline().decode(errors="replace")  # after the first attempt
        check("retrying" in line and "retry=1" in line, f"{options}: the first line is {line!r}")
        if options.startswith("bg"):
            check("in the background" in line, f"bg says {line!r}")
            equal(command.wait(20 * rig.slowness), 0, "exit status of a mount in the background")
        else:
            equal(command.poll(), None, f"{options}: status while the server is not there")
        check(not os.path.ismount(rig.mnt), f"{options}: mounted without a server")
        server = rig.serve(port=port)
        if not options.startswith("bg") and not flags:
            equal(command.wait(60 * rig.slowness), 0, f"{options}: exit status after the server started")
        check(processes.wait_until(lambda: os.path.ismount(rig.mnt), 60 * rig.slowness), f"{options}: never mounted")
        equal((rig.mnt / "hello").read_text(), "at last", f"{options}: a file")
        rig.run(["umount", rig.mnt], cwd="/")
        if flags:
            equal(command.wait(30 * rig.slowness), 0, "exit status in the foreground after umount")
        check(processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness), "mount.dafs runs after umount")
        server.stop()


@scenario(timeout=180, where="server")
def no_retries(rig):
    """Permanent errors fail at once; retry=0 tries once; after the command is killed nothing gets mounted."""
    rig.expect(".*")
    server = rig.serve()
    here = f"{rig.address}:{server.port}"
    for source, options, word in ((f"{here}:/absent", "retry=60", "no such export"),
                                  (f"{here}:/absent", "bg", "no such export"),
                                  ("no-such-host.invalid:/data", "retry=60", "no-such-host"),
                                  (f"{rig.address}:{free_port()}:/data", "retry=0", "no"),
                                  (f"{rig.address}:{free_port()}:/data", "bg,retry=0", "no")):
        status, line = refused(rig, source, options)
        equal(status, 32, f"exit status of {source} with {options}")
        check(word in line and "retrying" not in line, f"{source} with {options}: {line}")
    port = free_port()
    for number in (signal.SIGKILL, signal.SIGTERM):
        command = mounting(rig, port, "retry=60")
        command.stdout.readline()
        os.kill(command.pid, number)
        command.wait(20 * rig.slowness)
        if not processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness):
            raise Failure(f"mount.dafs goes on after signal {number} to its command")
    command = mounting(rig, port, "bg,retry=60")
    equal(command.wait(30 * rig.slowness), 0, "exit status of a mount in the background")
    left = rig.daemons()
    equal(len(left), 1, "processes that try in the background")
    os.kill(next(iter(left)), signal.SIGTERM)
    check(processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness), "it goes on after SIGTERM")
