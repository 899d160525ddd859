"""Mounting and unmounting: by hand, by mount(8), from an fstab, with errors, with the server gone."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import processes
from rig import ENDS_WITHIN, Failure, check, equal, errno_of, free_port, scenario

HELPERS = ("/sbin/mount.dafs", "/sbin/mount.fuse.dafs")  # by the type of fstab, and by that of /proc/mounts


class Helper:
    """Makes mount(8) use the program under test as its helper, inside the block; no helper need be installed."""

    def __init__(self, rig):
        self.target = str(rig.bin / "mount.dafs")
        self.made = []

    def __enter__(self):
        for helper in HELPERS:
            if os.path.lexists(helper):
                if os.path.realpath(helper) != os.path.realpath(self.target):
                    self.__exit__()
                    pytest.skip(f"{helper} is another build")
                continue
            try:
                os.symlink(self.target, helper)
            except OSError as error:
                self.__exit__()
                pytest.skip(f"{helper}: {error.strerror}")
            self.made.append(helper)

    def __exit__(self, *_):
        for helper in self.made:
            os.unlink(helper)
        self.made = []


def entry(point):
    """The line of /proc/self/mounts for a mount point, split; None if it is not mounted."""
    with open("/proc/self/mounts", encoding="utf-8") as table:
        for line in table:
            fields = line.split()
            if processes.unescape(fields[1]) == str(point):
                return fields
    return None


def refused(rig, source, options="", point=None, program=None):
    """Runs a mount that must fail; returns (exit status, the line printed)."""
    point = point or rig.mnt
    start = time.monotonic()
    status, text = rig.run(rig.mount_command(source, point, options, program), cwd="/", status=None, timeout=60)
    check(status != 0, f"{source} -o {options}: mounted, exit status 0")
    check(not os.path.ismount(point), f"{source}: exit status {status}, yet something is mounted")
    check(time.monotonic() - start < 15 * rig.slowness, f"{source}: refused only after more than 15 s")
    lines = text.strip().splitlines()
    equal(len(lines), 1, f"lines printed for {source} -o {options!r} ({text.strip()!r})")
    return status, lines[0]


@scenario(timeout=120, where="server", loopback=True)
def refusals(rig):
    """Each reason not to mount has its own one-line message and the exit status of mount(8)."""
    server = rig.serve([f"/data={rig.export},rw,no_root_squash",
                        f"/closed={rig.local},rw,clients=192.0.2.0/24"])
    here = f"127.0.0.1:{server.port}"
    rig.expect(".*")  # the server may log refusals as it likes
    nobody_listens = free_port()
    mount_failure, usage = {32}, {1}
    cases = {
        "host unknown": (refused(rig, "no-such-host.invalid:/data"), mount_failure, "no-such-host.invalid"),
        "refused": (refused(rig, f"127.0.0.1:{nobody_listens}:/data"), mount_failure, "refused"),
        "no such export": (refused(rig, f"{here}:/nothing"), mount_failure, "/nothing"),
        "bad option": (refused(rig, f"{here}:/data", "no_such_option"), usage, "no_such_option"),
        "bad value": (refused(rig, f"{here}:/data", "rsize=fast"), usage, "rsize"),
        "bad source": (refused(rig, "non/sense"), usage, "non/sense"),
        "no mount point": (refused(rig, f"{here}:/data", point=rig.base / "absent"), mount_failure | usage, "absent"),
    }
    import re  # pylint: disable=import-outside-toplevel
    texts = set()
    for name, ((status, line), statuses, pattern) in cases.items():
        check(status in statuses, f"{name}: exit status {status}, expected {statuses} ({line})")
        check(re.search(pattern, line, re.IGNORECASE), f"{name}: the message does not say so: {line}")
        texts.add(re.sub(r"\S*[:/]\S*", "", line))
    check(len(texts) == len(cases), f"two reasons share one message: {sorted(texts)}")
    # Nothing says that an export exists which does not admit this machine.
    status, line = refused(rig, f"{here}:/closed")
    equal((status, line.replace("closed", "nothing")), cases["no such export"][0], "a mount of a hidden export")
    status, _ = rig.run([rig.bin / "mount.dafs"], cwd="/", status=None)
    equal(status, 1, "exit status without arguments")
    status, _ = rig.run([rig.bin / "mount.dafs", "--help"], cwd="/", status=None)
    equal(status, 0, "exit status of --help")
    equal(rig.daemons(), {}, "daemons of mounts that failed")


@scenario(timeout=60, where="server", loopback=True)
def mount_t(rig):
    """mount -t dafs, its entry in /proc/mounts, umount by either name, a busy mount refused."""
    server = rig.serve()
    with Helper(rig):
        source = f"127.0.0.1:{server.port}:/data"
        for options in ("", "port=%d" % server.port, "ro,nosuid,noatime"):
            name = "127.0.0.1:/data" if options.startswith("port") else source
            joined = ",".join(filter(None, (rig.options, options)))
            rig.run(["mount", "-t", "dafs", name, rig.mnt, *(["-o", joined] if joined else [])], cwd="/")
            fields = entry(rig.mnt)
            check(fields is not None, "no entry in /proc/mounts")
            equal(fields[2], "fuse.dafs", "type in /proc/mounts")
            check(fields[0].startswith("127.0.0.1") and fields[0].endswith("/data"), f"source {fields[0]}")
            rig.run(["umount", rig.mnt], cwd="/")
        rig.run(["mount", "-t", "dafs", source, rig.mnt], cwd="/")
        (rig.mnt / "file").write_text("x")
        with open(rig.mnt / "file", encoding="ascii"):
            status, _ = rig.run(["umount", rig.mnt], cwd="/", status=None)
            equal(status, 32, "exit status of umount while a file is open")
        rig.run(["umount", rig.mnt], cwd="/")


@scenario(timeout=60, where="server", loopback=True)
def fstab(rig):
    """An fstab with _netdev, nofail, noauto and x- options; mount DIR and mount -a."""
    # Shows DAFS-2.4.2-01, DAFS-A.6-01: a preconfigured set of servers.
    server = rig.serve()
    (rig.export / "hello").write_text("from fstab")
    second = rig.base / "second"
    absent = rig.base / "absent"
    second.mkdir()
    absent.mkdir()
    table = rig.local / "fstab"
    source = f"127.0.0.1:{server.port}:/data"
    extra = f",{rig.options}" if rig.options else ""
    table.write_text(f"{source} {rig.mnt} dafs rw,_netdev,nofail,x-systemd.automount{extra} 0 0\n"
                     f"{source} {second} dafs ro,_netdev,noauto,user,comment=second{extra} 0 0\n"
                     f"127.0.0.1:{free_port()}:/data {absent} dafs defaults,nofail,_netdev,retry=0 0 0\n")
    with Helper(rig):
        rig.run(["mount", "-T", table, rig.mnt], cwd="/")
        equal((rig.mnt / "hello").read_text(), "from fstab", "a file of the first mount")
        rig.run(["mount", "-T", table, second], cwd="/")
        equal(errno_of(os.mkdir, second / "no"), errno.EROFS, "mkdir on the read-only mount")
        flags = entry(second)[3].split(",")
        check({"nosuid", "nodev", "noexec"} <= set(flags), f"`user` did not imply nosuid,nodev,noexec: {flags}")
        rig.run(["umount", rig.mnt], cwd="/")
        rig.run(["umount", second], cwd="/")
        rig.run(["mount", "-a", "-T", table], cwd="/", status=None)
        check(os.path.ismount(rig.mnt), "mount -a did not mount the first line")
        check(not os.path.ismount(second), "mount -a mounted what is noauto")
        rig.run(["umount", rig.mnt], cwd="/")


@scenario(timeout=120, where="server")
def server_gone(rig):
    """umount, umount -f and umount -l work at once though the server was killed; the daemon ends."""
    rig.expect(".*")  # losing the server may be logged
    for flags in ((), ("-f",), ("-l",)):
        server = rig.serve()
        rig.mount(server, daemon=True)
        (rig.mnt / "file").write_text("x")
        server.process.kill()
        server.process.wait()
        server.process = None
        start = time.monotonic()
        rig.umount(flags=flags)
        took = time.monotonic() - start
        check(took < 5 * rig.slowness, f"umount {' '.join(flags)} took {took:.1f} s")
        check(processes.wait_until(lambda: not rig.daemons(), 10 * rig.slowness),
              f"mount.dafs still runs 10 s after umount {' '.join(flags)}")


WRITES_ON_COMMAND = """import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("open", flush=True)
sys.stdin.readline()
os.write(file, bytes(4096))
print("written", flush=True)
sys.stdin.readline()
"""


@scenario(timeout=120, where="server")
def umount_silent(rig):
    """umount ends at once while the server is silent; the log names the data that did not reach the server."""
    rig.expect(".*")
    server = rig.serve()
    rig.mount(server)
    writer = subprocess.Popen([sys.executable, "-c", WRITES_ON_COMMAND, rig.mnt / "unsent"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, cwd="/")
    equal(writer.stdout.readline(), b"open\n", "what the writer says")
    os.kill(server.process.pid, signal.SIGSTOP)
    check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
    try:
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
        equal(writer.stdout.readline(), b"written\n", "what the writer says")
        writer.kill()  # its close waits for the server
        try:
            writer.wait(20 * rig.slowness)
        except subprocess.TimeoutExpired:
            raise Failure("a process that closes a file cannot be killed") from None
        process = rig.mounted.pop(rig.mnt)
        start = time.monotonic()
        rig.run(["umount", rig.mnt], cwd="/", timeout=20)
        took = time.monotonic() - start
        equal(process.wait(ENDS_WITHIN * rig.slowness), 0, "exit status of mount.dafs after umount")
        # umount(8) makes two requests. Each took 3.3 s while the second did not use the result of the first.
        check(took < 3, f"umount took {took:.1f} s")
        lines = (rig.logs / "mount.dafs.log").read_text(errors="replace").splitlines()
        check(any("unsent: 4096 bytes at 0 could not be written" in line for line in lines),
              f"the log does not name what never reached the server: {lines[-3:]}")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@scenario(timeout=120, where="server")
def stuck(rig):
    """A server that no longer answers: a process waiting for it dies by kill -9, and umount -l frees the daemon."""
    rig.expect(".*")
    server = rig.serve()
    rig.mount(server, daemon=True)
    (rig.mnt / "file").write_text("x" * 100_000)
    os.kill(server.process.pid, signal.SIGSTOP)
    check(processes.wait_until(lambda: processes.stopped(server.process.pid), 10), "the server does not stop")
    try:
        lister = subprocess.Popen(["ls", "-l", f"{rig.mnt}/no-such-name"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        processes.wait_until(lambda: False, 0.5)  # the request is sent and gets no answer
        check(lister.poll() is None, "a lookup was answered by a stopped server")
        lister.kill()
        try:
            lister.wait(10 * rig.slowness)
        except subprocess.TimeoutExpired:
            raise Failure("a process that waits for the server cannot be killed") from None
        rig.umount(flags=("-l",))
        check(processes.wait_until(lambda: not rig.daemons(), 15 * rig.slowness),
              "mount.dafs still runs 15 s after umount -l")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@scenario(timeout=60, where="server", loopback=True)
def ipv6(rig):
    """An IPv6 server in brackets."""
    probe = socket.socket(socket.AF_INET6)
    try:
        probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback")
    port = probe.getsockname()[1]
    probe.close()
    server = rig.serve(arguments=["--listen", f"tcp:[::1]:{port}"])
    rig.run(rig.mount_command(f"[::1]:{port}:/data", rig.mnt), cwd="/")
    rig.mounted[rig.mnt] = None
    (rig.mnt / "six").write_text("6")
    equal((rig.export / "six").read_text(), "6", "a file written over IPv6")
    check(server.process.poll() is None, "the server is gone")


@scenario(timeout=120, where="server")
def subdirectories(rig):
    """A directory below an export is mounted by its path, survives a restart, and gives no access to its parents."""
    inner = rig.export / "sub" / "a b"
    inner.mkdir(parents=True)
    (inner / "hello").write_text("below")
    (rig.export / "link").symlink_to("sub")
    (rig.export / "file").write_text("")
    closed = rig.export / "closed" / "inside"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    server = rig.serve([f"/data={rig.export},rw,no_root_squash", f"/squashed={rig.export},rw"])
    rig.expect("lost", "no session for", "retrying")
    point = rig.mount(server, export="/data/sub/a b")
    equal((point / "hello").read_text(), "below", "a file of the directory")
    equal(entry(point)[0].endswith("/data/sub/a\\040b"), True, f"source in /proc/mounts ({entry(point)[0]})")
    (point / "new").write_text("made")
    equal((inner / "new").read_text(), "made", "a file that was made through the mount")
    equal(os.stat(point / "..").st_dev, os.stat(point.parent).st_dev, "device of the directory above")
    server.stop()
    server.start()
    equal((point / "hello").read_text(), "below", "a file after a restart of the server")
    equal(sorted(os.listdir(point)), ["hello", "new"], "the root after a restart of the server")
    rig.umount()
    here = f"{rig.address}:{server.port}"
    for path, wanted, word in (("/data/absent", 32, "no such directory"), ("/data/file", 32, "not a directory"),
                               ("/data/file/x", 32, "not a directory"), ("/data/link", 32, "symbolic link"),
                               ("/data/link/a b", 32, "symbolic link"), ("/data/../data", 1, "'..'"),
                               ("/data/sub/..", 1, "'..'"), ("/squashed/closed/inside", 1, "not permitted")):
        status, line = refused(rig, f"{here}:{path}")
        equal(status, wanted, f"exit status for {path} ({line})")
        check(word in line, f"the message for {path} does not say {word!r}: {line}")


@scenario(timeout=60, where="server")
def exports(rig):
    """Several exports under one tree, one of them read-only, one with another file system mounted inside."""
    # Shows DAFS-4.1.4-01, DAFS-4.1.4-02, DAFS-4.1.4-05, DAFS-7-11 (ROFS).
    # Shows DAFS-4.1.4-06, DAFS-6.5.21-08: find(1) takes two directories with one number for one in itself.
    first, second, inner = rig.local / "first", rig.local / "second", rig.local / "first" / "inner"
    nested = inner / "nested"
    for directory in (first, second, inner):
        directory.mkdir()
    (second / "fixed").write_text("read me")
    rig.run(["mount", "-t", "tmpfs", "-o", "size=16m", "dafs-test", inner], cwd="/")
    try:
        nested.mkdir()
        rig.run(["mount", "-t", "tmpfs", "-o", "size=16m", "dafs-test", nested], cwd="/")
        (nested / "deepest").write_text("nested")
        (inner / "file").write_text("inner")
        (first / "file").write_text("outer")
        server = rig.serve([f"/first={first},rw,no_root_squash", f"/second={second},ro"])
        root = rig.mount(server, export="/")
        equal(sorted(os.listdir(root)), ["first", "second"], "what the root of the server shows")
        equal((root / "first" / "file").read_text(), "outer", "file of the first export")
        equal((root / "first" / "inner" / "file").read_text(), "inner", "file of the file system inside")
        identities = {(s.st_dev, s.st_ino) for s in map(os.stat, (
            root, root / "first", root / "second", root / "first" / "inner", root / "first" / "file",
            root / "first" / "inner" / "file", root / "first" / "inner" / "nested"))}
        equal(len(identities), 7, "different identities of seven files")
        found = rig.run(["find", root / "first", "-name", "deepest"], cwd="/")
        check("deepest" in str(found), f"find: {found}")
        equal(errno_of(os.mkdir, root / "new"), errno.EROFS, "mkdir in the pseudo file system")
        equal(errno_of(os.mkdir, root / "second" / "new"), errno.EROFS, "mkdir in a read-only export")
        equal(errno_of(os.open, root / "second" / "fixed", os.O_WRONLY), errno.EROFS, "open to write there")
        equal(errno_of(os.rename, root / "first" / "file", root / "first" / "inner" / "x"), errno.EXDEV,
              "rename into another file system")
        equal(errno_of(os.link, root / "first" / "file", root / "second" / "x") in (errno.EXDEV, errno.EROFS), True,
              "link into another export")
        rig.umount()
    finally:
        for server in rig.servers:  # the server keeps files open for a while, so their file systems stay busy
            server.stop()
        rig.run(["umount", nested], cwd="/", status=None)
        rig.run(["umount", inner], cwd="/", status=None)
