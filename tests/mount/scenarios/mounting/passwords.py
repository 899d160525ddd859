"""Names and passwords (DAFS_AUTH_TEXT), by mounts and a client of its own over TLS: which clients are admitted, and as which user."""

import errno
import os
import ssl
import struct
import subprocess
import threading
import time

from iwarp import Closed
from layout import counted
from peer import Peer, Request
from rig import acting_as, check, equal, errno_of, scenario
from .mounting import refused
from .tls import Authority, tls_arguments

TEXT = 1
PASSWORD = "correct horse"
WRONG = "battery staple"
USER = 4711


def hash_of(password):
    """A hash as mkpasswd(1) or openssl(1) makes it."""
    return subprocess.run(["openssl", "passwd", "-6", "-salt", "dafsdafs", "-stdin"], input=password, text=True,
                          stdout=subprocess.PIPE, timeout=30, check=True).stdout.strip()


def trusting(authority):
    """A context of a client that trusts the authority."""
    context = ssl.create_default_context(cafile=authority.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["dafs"])
    return context


def with_password(peer, name, password):
    """Sends CLIENT_AUTH; returns its status."""
    body = peer.layout(16).put(0, "I", TEXT)
    return peer.call(Request("CLIENT_AUTH", body.item(4, counted(peer.order, name)).item(
        8, counted(peer.order, password)).bytes)).status


def methods(peer):
    """The authentication methods that SECINFO lists."""
    response = peer.call(Request("SECINFO"))
    equal(response.status, "OK", "SECINFO")
    where = response.get("I", 0)
    count = struct.unpack_from(peer.order + "I", response.body, where)[0] if where else 0
    return count


@scenario(timeout=60, where="server", loopback=True)
def passwords(rig):
    """A client with a password is one user, over TLS only; wrong ones are slow and few; a change of the file counts at
    once, and no log has a password."""
    rig.expect("refused", "session", "Password", "wrong names")
    authority = Authority(rig)
    file = rig.base / "passwords"
    with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as lines:
        lines.write(f"# users\nalice:{hash_of(PASSWORD)}:{USER}:{USER}\nbob:{hash_of('bob')}:4712:4712\n")
    rig.local.chmod(0o755)
    audit = rig.base / "audit.json"
    os.chmod(rig.export, 0o755)
    os.chown(rig.export, USER, USER)
    server = rig.serve([f"/data={rig.export},rw,sec=text,principals=alice", f"/open={rig.local},sec=sys:krb5:text"],
                       [*tls_arguments(authority), "--password-file", file, "--audit", audit])

    def connected(name, tls=True):
        peer = Peer(server.port, tls=trusting(authority) if tls else None, connect=False)
        peer.adopt(peer.connect(name, auth=None))
        return peer

    plain = connected("plain", tls=False)
    equal(with_password(plain, "alice", PASSWORD), "NOTSUPP", "a password without TLS")
    without = methods(plain)
    plain.close()

    alice = connected("alice")
    equal(methods(alice), without + 1, "methods that SECINFO lists over TLS")
    equal(with_password(alice, "alice", PASSWORD), "OK", "the password")
    equal(alice.credential(0), "NOT_AUTHORIZED", "REGISTER_CRED")
    # Shows DAFS-6.2.3-05 and DAFS-3.1.1.1.2-06: no client gets a password of the server.
    equal(alice.call(Request("SERVER_AUTH", struct.pack(alice.order + "II", TEXT, 0))).status, "NOT_AUTHORIZED",
          "SERVER_AUTH")
    root = alice.root()
    handle, _ = alice.opened(alice.walk("data"), "file", create=1)
    equal((rig.export / "file").stat().st_uid, USER, "owner of the file")
    check(handle is not None and root is not None, "no handles")

    # In one exchange, and by a client that does not wait for the answer.
    both = Peer(server.port, tls=trusting(authority), connect=False)
    body = both.layout(72)
    body.bytes = bytearray(both.connect_body("both", size=72, auth=TEXT))
    body.item(60, counted(both.order, "alice")).item(64, counted(both.order, PASSWORD))
    equal(both.call(Request("CLIENT_CONNECT_AUTH", bytes(body.bytes))).status, "OK", "CLIENT_CONNECT_AUTH")
    both.close()
    gone = connected("gone")
    gone.submit(Request("CLIENT_AUTH", gone.layout(16).put(0, "I", TEXT).item(4, counted(gone.order, "alice")).item(
        8, counted(gone.order, WRONG)).bytes))
    gone.close()

    # A mount is the same user for all of its requests.
    secret = rig.base / "credentials"
    secret.write_text(f"username=alice\npassword={PASSWORD}\n")
    secret.chmod(0o600)
    tls = f"xprtsec=tls,tlsca={authority.ca}"
    options = f"sec=text,credentials={secret},{tls}"
    point = rig.mount(server, options)
    (point / "mounted").write_text("x")
    equal((rig.export / "mounted").stat().st_uid, USER, "owner of a file of the mount")
    with acting_as(65534):
        equal(errno_of(os.stat, point / "mounted"), errno.EACCES, "another user of this machine")
    rig.umount()
    source = f"{rig.address}:{server.port}:"
    for target, given, mode, words in (("/data", PASSWORD, 0o644, "other users can access it"),
                                       ("/open-not", PASSWORD, 0o600, "no such export"),
                                       ("/data", WRONG, 0o600, "refuses this name or password")):
        secret.write_text(f"username=alice\npassword={given}\n")
        secret.chmod(mode)
        _, line = refused(rig, source + target, options)
        check(words in line, line)

    # Each on a connection of its own: all wait at the same time.
    outcomes = {}

    def attempt(key, *tries):
        peer = connected(f"guess-{key}")
        start = time.monotonic()
        try:
            outcomes[key] = [with_password(peer, *one) for one in tries]
        except (Closed, ValueError, OSError) as error:
            outcomes[key] = type(error).__name__
        outcomes[key, "time"] = time.monotonic() - start

    attempts = {"wrong": [("alice", WRONG)], "nobody": [("nobody", PASSWORD)], "empty": [("alice", "")],
                "nul": [("alice", PASSWORD + "\0")], "long": [("alice", "x" * 600)], "name": [("a\n@", PASSWORD)],
                "bob": [("bob", "bob")]}
    threads = [threading.Thread(target=attempt, args=(key, *tries)) for key, tries in attempts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in attempts:
        equal(outcomes[key], ["OK" if key == "bob" else "NOT_AUTHORIZED"], f"the attempt {key}")
        check(key == "bob" or outcomes[key, "time"] >= 1, f"the attempt {key} took only {outcomes[key, 'time']} s")
    text = server.log.read_text() + audit.read_text()
    check("connected as alice" in text and "alice: a wrong password" in text, "nothing in the log")
    check(PASSWORD not in text and WRONG not in text, "a password is in a log")

    file.write_text(f"alice:{hash_of(WRONG)}:{USER}:{USER}\n")
    later = connected("later")
    equal(with_password(later, "alice", WRONG), "OK", "the new password")
    for peer in (alice, later):
        peer.close()
    os.chmod(file, 0o644)
    status, line = rig.run([rig.bin / "dafsd", "--foreground", "--state-dir", rig.base, "--export",
                            f"/data={rig.export},sec=text", "--listen", "tcp:127.0.0.1:1", *tls_arguments(authority),
                            "--password-file", file], status=None, cwd="/")
    check(status == 1 and "other users can access it" in line and "chmod 600" in line, line)


@scenario(timeout=60, where="server", loopback=True, long_only=True)
def passwords_guessed(rig):
    """After five wrong passwords, a second apart, the connection ends. Of tries sent together one is checked."""
    rig.expect("refused", "session", "Password", "wrong names")
    authority = Authority(rig)
    file = rig.base / "passwords"
    with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as lines:
        lines.write(f"alice:{hash_of(PASSWORD)}:{USER}:{USER}\n")
    server = rig.serve([f"/data={rig.export},rw,sec=text"], [*tls_arguments(authority), "--password-file", file])
    peer = Peer(server.port, tls=trusting(authority), connect=False)
    peer.adopt(peer.connect("guess", auth=None))
    start, answers = time.monotonic(), []
    try:
        for _ in range(6):
            answers.append(with_password(peer, "alice", WRONG))
    except (Closed, OSError):
        pass
    equal(answers, ["NOT_AUTHORIZED"] * 4, "answers")
    check(time.monotonic() - start >= 5, "guesses are fast")
    peer.close()

    several = Peer(server.port, tls=trusting(authority), connect=False)
    several.adopt(several.connect("several", auth=None, requests=8))
    body = several.layout(16).put(0, "I", TEXT).item(4, counted(several.order, "alice")).item(
        8, counted(several.order, WRONG)).bytes
    for stream in range(4):
        several.submit(Request("CLIENT_AUTH", body), stream=stream)
    found = sorted(several.result().status for _ in range(4))
    equal(found, ["ILLEGAL_STATE"] * 3 + ["NOT_AUTHORIZED"], "answers to tries that are sent together")
    several.close()
