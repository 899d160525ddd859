"""Changes to a running server by dafsctl server: reload (also SIGHUP), drain and unlock; and its socket under attack."""

import errno
import json
import os
import random
import signal
import socket
import subprocess
import threading

import processes
from actors import Actor
from rig import check, equal, errno_of, scenario
from scenarios.sharing.locks import Stage
from .control import ask

RECORD = 16


class Administered:
    """A server with /data of its command line, and the exports of its file."""

    def __init__(self, rig, lines=()):
        self.rig = rig
        self.other = rig.base / "other"
        self.other.mkdir()
        self.file = rig.base / "dafsd.conf"
        self.write(*lines)
        self.server = rig.serve(arguments=["--config", str(self.file)])
        # The server listens before it makes this socket.
        check(processes.wait_until(lambda: self.ask("status")[0] == 0, 20), "dafsd does not answer dafsctl")

    def write(self, *lines):
        self.file.write_text("".join(f"{line}\n" for line in lines))

    def other_export(self, options="rw"):
        return f"export = /other={self.other},no_root_squash,insecure,{options}"

    def ask(self, *words, user=None):
        return ask(self.rig, "server", *words, "--socket", self.server.socket, user=user)

    def must(self, *words):
        status, text = self.ask(*words)
        equal(status, 0, f"exit status of dafsctl server {words} ({text})")
        return text

    def report(self, *words):
        return json.loads(self.must(*words, "--json"))


class Appender(threading.Thread):
    """Appends numbered records to a file until it is stopped; each is synced now and then."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.count = 0
        self.stopping = threading.Event()
        self.error = None
        self.start()

    def run(self):
        try:
            with open(self.path, "ab", buffering=0) as file:
                while not self.stopping.is_set():
                    file.write(f"{self.count:{RECORD - 1}}\n".encode())
                    if self.count % 64 == 0:
                        os.fsync(file.fileno())
                    self.count += 1
        except OSError as error:
            self.error = error

    def account(self):
        """Ends the thread, and checks that the file has each record once."""
        self.stopping.set()
        self.join()
        equal(self.error, None, f"error of the writer of {self.path}")
        text = self.path.read_bytes()
        equal(text, b"".join(f"{i:{RECORD - 1}}\n".encode() for i in range(self.count)), f"records of {self.path}")


@scenario(timeout=120, where="server")
def server_reload(rig):
    """A reload serves other exports at once. Mounts of the kept ones notice nothing, and lose nothing."""
    rig.expect(".*")
    admin = Administered(rig)
    with_other = (admin.other_export(),)
    rig.mount(admin.server)
    writers = [Appender(rig.mnt / f"records-{i}") for i in range(2)]
    second = rig.base / "second"
    second.mkdir()
    equal(admin.must("reload"), "no export has changed", "a reload without changes")
    admin.write(*with_other)
    equal(admin.must("reload"), "added /other", "the answer of a reload")
    rig.mount(admin.server, export="/other", point=second)
    (second / "f").write_text("content")
    actor = Actor()
    try:
        actor.must("open", "f", str(second / "f"))
        actor.must("record", "f", "W")
        admin.write()
        equal(admin.must("reload"), "removed /other", "the answer of a reload")
        for what, call in (("stat", lambda: os.stat(second / "g")), ("open", lambda: os.open(second / "f", os.O_RDWR)),
                           ("listing", lambda: os.listdir(second))):
            check(processes.wait_until(lambda: errno_of(call) in (errno.EACCES, errno.ESTALE), 10),
                  f"{what} in a removed export: {errno_of(call)}")
        check(actor.do("record", "f", "R") != 0, "a lock of a removed export")
        equal([one["file"] for one in admin.report("locks")["locks"]], [], "locks after the removal")
    finally:
        actor.end()
    before = [writer.count for writer in writers]
    for i in range(20):
        admin.write(*(with_other if i % 2 == 0 else ()))
        admin.must("reload")
    admin.write(*with_other)
    os.kill(admin.server.process.pid, signal.SIGHUP)
    check(processes.wait_until(lambda: len(admin.report("exports")["exports"]) == 2, 20), "SIGHUP adds no export")
    check(processes.wait_until(lambda: errno_of(os.listdir, second) == 0, 20), "the mount does not come back")
    equal((second / "f").read_text(), "content", "a file of the export that came back")
    check(all(writer.count > count for writer, count in zip(writers, before)), "the writers of the kept export stand")
    for writer in writers:
        writer.account()


@scenario(timeout=60, where="server")
def server_reload_options(rig):
    """Changed options apply to the next request. A mistake changes nothing; the answer and the log name its line."""
    rig.expect(".*")
    admin = Administered(rig)
    admin.write(admin.other_export())
    admin.must("reload")
    rig.mount(admin.server, export="/other")
    (rig.mnt / "f").write_text("before")
    admin.write(admin.other_export("ro"))
    equal(admin.must("reload"), "changed the options of /other", "the answer of a reload")
    equal(errno_of(os.mkdir, rig.mnt / "d"), errno.EROFS, "mkdir in an export that became read-only")
    for lines, place, word in (((admin.other_export("rw"), "export = /x"), ":2: ", "/x"),
                               (("", admin.other_export("rx")), ":2: ", "rx"),
                               ((admin.other_export("rw"), "", "export = /gone=/absent"), ":3: ", "/absent"),
                               ((admin.other_export("rw"), admin.other_export("rw")), ":2: ", "twice"),
                               (("bogus = 1",), ":1: ", "bogus")):
        admin.write(*lines)
        status, text = admin.ask("reload")
        equal(status, 1, f"exit status of a reload with {lines} ({text})")
        for part in (str(admin.file) + place, word, "nothing has changed"):
            check(part in text, f"no `{part}` in the answer of a reload with {lines}: {text}")
            check(part in admin.server.log.read_text(), f"no `{part}` in the log")
        equal(errno_of(os.mkdir, rig.mnt / "d"), errno.EROFS, f"mkdir after a reload with {lines}")
    admin.write(admin.other_export("rw"))
    status, text = admin.ask("reload", user=65534)
    equal(status, 1, f"exit status of a reload by another user ({text})")
    equal(errno_of(os.mkdir, rig.mnt / "d"), errno.EROFS, "mkdir after a reload by another user")
    admin.must("reload")
    check(processes.wait_until(lambda: errno_of(os.mkdir, rig.mnt / "d") in (0, errno.EEXIST), 10), "mkdir after rw")


@scenario(timeout=120, where="server")
def server_drain(rig):
    """A draining server keeps its mounts and refuses others, which say why and wait until it ends."""
    rig.expect(".*")
    admin = Administered(rig)
    rig.mount(admin.server)
    file = open(rig.mnt / "f", "wb", buffering=0)
    file.write(b"before")
    check("1 clients left" in admin.must("drain"), "the answer of drain")
    second = rig.base / "second"
    second.mkdir()
    source = f"{rig.address}:{admin.server.port}:/data"
    status, text = rig.run(rig.mount_command(source, second), cwd="/", status=None)
    equal(status, 32, f"exit status of a mount while the server drains ({text})")
    check("the server is draining" in text, f"the message of a mount while the server drains: {text}")
    waiting = subprocess.Popen([str(word) for word in rig.mount_command(source, second, "retry=1")], cwd="/",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = waiting.stdout.readline()
        check("is draining" in line and "retrying" in line, f"the message of a mount that waits: {line}")
        file.write(b" and after")
        os.fsync(file.fileno())
        (rig.mnt / "g").write_bytes(b"new")
        status, text = admin.ask("drain", "--wait", "0.1")
        equal(status, 1, f"exit status of drain --wait with a client ({text})")
        check("clients are left" in text, f"the message of drain --wait: {text}")
        file.close()
        rig.umount()
        text = admin.must("drain", "--wait", "60")
        check(text.splitlines()[-1].startswith("0 clients left"), f"the last line of drain --wait: {text}")
        equal(admin.report("status")["drain"]["state"], "drained", "state")
        equal(admin.must("drain", "--undo"), "takes new clients", "the answer of drain --undo")
        equal(waiting.wait(60), 0, "exit status of the mount that waited")
    finally:
        waiting.kill()
        waiting.wait()
        waiting.stdout.close()
    equal((second / "f").read_bytes(), b"before and after", "what was written while the server drained")
    rig.run(["umount", second], cwd="/")


@scenario(timeout=120, where="server")
def server_unlock(rig):
    """unlock releases the locks of one owner: a waiter gets its lock, and the owner learns that it lost the file."""
    rig.expect(".*")
    with Stage(rig) as stage:

        def server(*words):
            status, text = ask(rig, "server", *words, "--socket", stage.server.socket)
            equal(status, 0, f"exit status of dafsctl server {words} ({text})")
            return text

        holder, waiter = stage.actor("one"), stage.actor("two")
        holder.must("record", "f", "W", 0, 10)
        waiter.begin("record", "f", "W", 0, 10, True)

        def locks():
            return json.loads(server("locks", rig.export / "f", "--json"))["locks"]

        check(processes.wait_until(lambda: len(locks()) == 2, 20), f"no waiter is shown: {locks()}")
        text = server("unlock", rig.export / "f", locks()[0]["id"])
        check("1 locks of 1 owners released" in text, f"the answer of unlock: {text}")
        equal(waiter.answer(), 0, "the lock of the waiter")

        equal(holder.do("record", "f", "W", 20, 10), errno.EIO, "the next lock of the owner")
        check(processes.wait_until(lambda: holder.do("sync", "f") == errno.EIO or holder.do("write", "f", "x", 0) == errno.EIO,
                                   20), "the owner still uses the file")
        check("unlock by uid 0" in stage.server.log.read_text(), "the log does not name the user")
        status, text = ask(rig, "server", "unlock", rig.export / "f", "00000000", "--socket", stage.server.socket)
        equal(status, 1, f"exit status of unlock without such a lock ({text})")


def _send(path, line):
    """Sends `line` unchanged; returns the answer, empty if the socket is closed without one."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(str(path))
        try:
            peer.sendall(line)
            peer.shutdown(socket.SHUT_WR)
            answer = b""
            while part := peer.recv(65536):
                answer += part
        except (BrokenPipeError, ConnectionResetError):
            return b""
        return answer


def _as(user, group, call):
    """Runs `call` in a process of this user and group; returns whether it returned true."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            os._exit(0 if call() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@scenario(timeout=120, where="server")
def server_socket_hostile(rig):
    """Random lines, half lines and 1,000 connections do the admin socket no harm; only root changes anything."""
    rig.expect(".*")
    admin = Administered(rig)
    path = admin.server.socket
    before = admin.report("status")
    descriptors = admin.server.usage()["descriptors"]
    random.seed(7)
    words = ["json", "status", "clients", "load", "files", "opens", "locks", "exports", "log", "loud", "evict", "unlock", "failed-locks", "forget-locks",
             "all", "/", "..", "0", "\0", "\xff", "%s%n", "x" * 5000]
    for _ in range(300):
        line = " ".join(random.choice(words) for _ in range(random.randrange(6))).encode("latin-1")
        if random.random() < 0.5:
            line += random.randbytes(random.randrange(40)).replace(b"\n", b"")
        _send(path, line + random.choice((b"", b"\n", b"\nstatus\n")))
    peers = []
    for i in range(1000):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(path))  # waits while too many others do
        peer.settimeout(10)
        try:
            peer.send((b"", b"sta", b"status\n", b"json clients\n")[i % 4])
        except OSError:
            pass  # refused: too many
        peers.append(peer)
        if len(peers) > 100:
            peers.pop(0).close()
    for peer in peers:
        peer.close()
    check(processes.wait_until(lambda: admin.ask("status")[0] == 0, 20), "the socket does not answer any more")
    check(processes.wait_until(lambda: admin.server.usage()["descriptors"] <= descriptors + 2, 20), "descriptors leak")
    # A user who cannot connect, and one who can as the group dafs could. Neither changes anything.
    changes = (b"reload\n", b"drain\n", b"drain undo\n", b"log debug\n", b"evict x\n", b"unlock all /\n", b"forget-locks /\n")

    def cannot_connect():
        return errno_of(_send, path, b"status\n") == errno.EACCES

    def may_only_read():
        return b"dafsd" in _send(path, b"status\n") and all(b"only root" in _send(path, line) for line in changes)

    check(_as(65534, 65534, cannot_connect), "another user can connect")
    os.chown(path, 0, 12345)
    os.chmod(path, 0o660)
    check(_as(65534, 12345, may_only_read), "a member of the group reads nothing, or changes something")
    after = admin.report("status")
    for name in ("process", "exports", "clients", "opens"):
        equal(after[name], before[name], name)
    equal(after["drain"]["state"], "serving", "state")
