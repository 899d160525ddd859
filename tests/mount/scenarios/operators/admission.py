"""The programs that may be clients: reserved ports, identities, and programs that pretend to be another's client."""

import contextlib
import encodings.idna  # noqa: F401  user 65534 may not be able to load it
import errno
import fcntl
import os
import re
import socket
import sys
import traceback

import pytest

import processes
from peer import Peer, Request
from rig import Failure, check, equal, errno_of, scenario
from scenarios.mounting.mounting import refused
from tree import exported_names

NOBODY = 65534
ANONYMOUS = 3  # AUTH_DEFAULT
TCP_REPAIR = 19
LAST_BYTE = 2**64 - 1  # of flock(2)


def as_nobody(what, call):
    """Runs `call` in a process of user 65534."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            call()
            os._exit(0)
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            sys.stdout.flush()
            os._exit(1)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, what)


def fnv(text):
    """FNV-1a of 64 bits."""
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def client_ports(port):
    """The local ports of connections to TCP port `port` of this machine."""
    ports = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            ports += [int(found[1], 16) for found in
                      (re.match(rf"\s*\d+: \w+:(\w+) \w+:{port:04X} 01 ", line) for line in lines) if found]
    return ports


def check_reserved(port, least):
    """All connections to `port` come from reserved ports, and there are at least `least` of them."""
    processes.wait_until(lambda: len(client_ports(port)) >= least, 20)
    found = client_ports(port)
    check(len(found) >= least, f"{len(found)} connections, {least} expected")
    check(all(664 < each < 1024 for each in found), f"local ports {sorted(found)}")


@scenario(timeout=180, where="server")
def reserved_ports(rig):
    """A mount connects from reserved ports, also after a restart, by IPv4 and IPv6; a secure export needs them."""
    rig.expect("refused", "session")
    export = [f"/data={rig.export},rw,no_root_squash,secure"]
    server = rig.serve(export)
    here = f"{rig.address}:{server.port}:/data"
    rig.mount(server, "nconnect=3,rdma_read_channel")
    (rig.mnt / "file").write_text("served")
    tcp = rig.server_proto == "tcp"
    if tcp:
        check_reserved(server.port, 2)  # a session and its channel
    server.stop()
    server.start()
    equal((rig.mnt / "file").read_text(), "served", "a file after a restart of the server")
    if tcp:
        check_reserved(server.port, 2)
    rig.umount()

    for source in (here, f"{rig.address}:{server.port}:/"):  # the export, and the directory of exports
        status, line = refused(rig, source, "noresvport")
        equal(status, 1, f"exit status of {source} without a reserved port")
        check("port below 1024" in line and "insecure" in line and "noresvport" in line, line)
    log = server.log.read_text()
    equal(log.count("an export without `insecure` takes only clients with a port below 1024"), 1, "log lines")
    if not tcp:
        return
    status, text = rig.run([rig.bin / "dafsctl", "ping", "-c", "1", f"{rig.address}:{server.port}"], status=None,
                           cwd="/")
    check(status == 0 and ", trusted," in text, f"ping as root: {text}")
    status, text = rig.run([rig.bin / "dafsctl", "ping", "-c", "1", f"{rig.address}:{server.port}"], status=None,
                           cwd="/", user=NOBODY)
    check(status == 0 and ", not trusted," in text, f"ping as another user: {text}")

    six = rig.serve(export, ["--listen", f"tcp:[::1]:{server.port}"])
    point = rig.base / "six"
    point.mkdir()
    rig.run(rig.mount_command(f"[::1]:{server.port}:/data", point), cwd="/")
    rig.mounted[point] = None
    check_reserved(server.port, 1)
    equal((point / "file").read_text(), "served", "a file by IPv6")
    rig.umount(point)
    six.stop()


@scenario(timeout=120, where="server", loopback=True)
def unprivileged_client(rig):
    """A secure export with no_root_squash refuses a program of user 65534: it can make no set-uid program there."""
    rig.expect("refused", "session")
    rig.export.chmod(0o777)
    server = rig.serve()
    admitted = Peer(server.port)
    root = admitted.root()  # a handle stays valid
    admitted.close()
    server.stop()
    server.exports = [f"/data={rig.export},rw,no_root_squash,secure"]
    server.start()

    def attack():
        for auth in (0, ANONYMOUS):
            peer = Peer(server.port, connect=False)
            connected = peer.connect("attacker", auth=auth)
            if auth == 0:
                equal(connected.status, "NOT_AUTHENTICATED", "AUTH_NONE")
                continue
            equal(connected.status, "OK", "AUTH_DEFAULT")
            peer.adopt(connected)
            equal(peer.credential(0), "NOT_AUTHORIZED", "REGISTER_CRED of uid 0")
            equal(peer.call(Request("GET_ROOT_HANDLE")).status, "WRONGSEC", "GET_ROOT_HANDLE")
            equal(peer.call(peer.lookup(root, ["data"])).status, "WRONGSEC", "LOOKUP of the export")
            made = peer.call(peer.open(root, ["data", "suid"], 0, mode=0o4755))
            check(made.status != "OK", f"OPEN that creates: {made.status}")

    as_nobody("the attack", attack)
    equal(exported_names(rig.export), [], "files in the export")


@scenario(timeout=60, where="server", loopback=True)
def restarted_machine(rig):
    """A client whose machine restarted takes its own place at once."""
    rig.expect("refused", "session")
    server = rig.serve()
    (rig.export / "file").write_text("served")
    before = Peer(server.port, name="node", verifier=b"before!!")
    before.act_as()
    before.opened(before.walk("data"), "file", create=None, deny=3)
    # Closes the socket without a segment to the peer.
    try:
        before.connection.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except OSError as error:
        pytest.skip(f"TCP_REPAIR: {error.strerror}")
    before.close()
    # Long before keepalive would detect it.
    after = Peer(server.port, name="node", verifier=b"after!!!")
    after.act_as()
    after.opened(after.walk("data"), "file", create=None, deny=3)
    after.close()


@scenario(timeout=120, where="server", loopback=True)
def another_clients_name(rig):
    """The world-readable parts of a mount's client id do not reveal it: another program cannot take its lock."""
    rig.expect("refused", "session")
    server = rig.serve()  # insecure
    rig.mount(server)
    victim = os.open(rig.mnt / "file", os.O_CREAT | os.O_RDWR, 0o666)
    fcntl.flock(victim, fcntl.LOCK_EX)

    def attack():
        host = socket.gethostname()
        try:
            with open("/etc/machine-id", encoding="ascii") as file:
                machine = file.readline().strip()
        except OSError:
            machine = host
        plain = f"{machine}/127.0.0.1:{server.port}/{fnv(f'/data{chr(10)}{rig.mnt}'):016x}"  # all of it, once
        for name in (plain, f"{host}:{rig.mnt}", f"{host}:{rig.mnt}/", f"{host}:{rig.mnt}/{'0' * 32}"):
            peer = Peer(server.port, name=name, verifier=os.urandom(8))
            peer.act_as()
            handle, state = peer.opened(peer.walk("data"), "file", create=None)
            denied = peer.call(peer.lock(handle, state, offset=LAST_BYTE, length=1))
            equal(denied.status, "DENIED", f"LOCK as {name}")
            try:
                with open("/var/lib/dafs/client-secret", "rb"):
                    raise Failure("the secret of client ids can be read by others")
            except PermissionError:
                pass

    as_nobody("the attack", attack)
    equal(os.write(victim, b"mine"), 4, "bytes written by the holder of the lock")
    os.fsync(victim)
    os.close(victim)


SECOND = """
import os, subprocess, sys
os.makedirs("/run/dafs", exist_ok=True)
subprocess.run(["mount", "-t", "tmpfs", "none", "/run/dafs"], check=True)  # the other machine's
done = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL)
if done.returncode == 0:
    descriptor = os.open(sys.argv[1] + "/file", os.O_RDWR)
    import fcntl
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked by another")
    os.close(descriptor)
    subprocess.run(["umount", sys.argv[1]], check=True)
sys.exit(done.returncode)
"""


@contextlib.contextmanager
def another_machine(rig):
    """A network namespace with an address of its own. Yields its name, and the address at which it reaches this machine."""
    rig.need("ip", "unshare")
    name = f"dafs-{os.getpid()}"
    network = f"10.203.{os.getpid() % 256}"
    outside, inside = f"dv{os.getpid()}", f"dw{os.getpid()}"
    rig.run(["ip", "netns", "add", name])
    try:
        rig.run(["ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name])
        rig.run(["ip", "addr", "add", f"{network}.1/30", "dev", outside])
        rig.run(["ip", "link", "set", outside, "up"])
        rig.run(["ip", "-n", name, "addr", "add", f"{network}.2/30", "dev", inside])
        rig.run(["ip", "-n", name, "link", "set", inside, "up"])
        yield name, f"{network}.1"
    finally:
        rig.run(["ip", "netns", "delete", name])


@scenario(timeout=120, where="server", loopback=True)
def copied_machine(rig):
    """A copy of a machine cannot mount the same export on the same directory; the error names clientid=."""
    rig.expect("refused", "session", "client id in use")
    with another_machine(rig) as (name, address):
        rig.address = address
        server = rig.serve()
        rig.mount(server)
        first = os.open(rig.mnt / "file", os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(first, fcntl.LOCK_EX)

        def second(options):
            mount = rig.mount_command(f"{address}:{server.port}:/data", rig.mnt, options)
            return rig.run(["ip", "netns", "exec", name, "unshare", "--mount", sys.executable, "-c", SECOND, rig.mnt,
                            *mount], cwd="/", status=None)

        status, text = second("")
        equal(status, 32, f"exit status ({text.strip()})")
        check("clientid=" in text, text)
        check(re.search(rf"at {re.escape(address[:-1])}2:\d+ refused: a client at {re.escape(address)} has that name",
                        server.log.read_text()), "the server's log does not name both addresses")
        status, text = second("clientid=second")
        equal((status, text.strip()), (0, "locked by another"), "with clientid=")
        equal(os.write(first, b"mine"), 4, "bytes written by the holder of the lock")
        os.fsync(first)
        os.close(first)
        rig.umount()
        # The same machine again, after its mount was killed.
        rig.mount(server)
        os.kill(rig.mounted[rig.mnt].pid, 9)
        rig.mounted.pop(rig.mnt).wait()
        rig.run(["umount", "-l", str(rig.mnt)], cwd="/")
        rig.mount(server)
        equal(errno_of(os.open, rig.mnt / "absent", os.O_RDONLY), errno.ENOENT, "a look at the new mount")
        rig.umount()
