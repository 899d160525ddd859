"""sec=krb5: each user of a mount acts by a ticket of their own, with a realm on loopback."""

import contextlib
import errno
import json
import os
import pwd
import socket
import struct
import subprocess
import threading
import time

import processes
from rig import acting_as, check, equal, scenario
from .kerberos import realm
from .tls import Authority, tls_arguments

GAMES, MAN = (pwd.getpwnam(name).pw_uid for name in ("games", "man"))
WITHOUT = pwd.getpwnam("nobody").pw_uid


@contextlib.contextmanager
def realm_of_users(rig):
    """A realm whose machines are the user nobody of the server."""
    with realm(rig) as folder:
        conf = folder / "krb5.conf"
        conf.write_text(conf.read_text().replace(
            "    kdc =", "    auth_to_local = RULE:[2:nobody]\n    auth_to_local = DEFAULT\n    kdc ="))
        yield folder


def kinit(rig, folder, name, *options):
    """Gives user `name` a ticket, as kinit(1) does: a whole new cache at once."""
    uid = pwd.getpwnam(name).pw_uid
    cache, fresh = rig.base / f"cc-{uid}", rig.base / f"cc-{uid}.new"
    subprocess.run(["kinit", *options, "-k", "-t", folder / f"{name}.keytab", "-c", f"FILE:{fresh}", name], check=True)
    os.chown(fresh, uid, 0)
    os.rename(fresh, cache)


def options(rig, folder):
    return f"sec=krb5,keytab={folder}/client.keytab,ccache=FILE:{rig.base}/cc-%{{uid}}"


@contextlib.contextmanager
def fails(number):
    """The body fails with this errno."""
    try:
        yield
    except OSError as error:
        equal(errno.errorcode[error.errno], errno.errorcode[number], "the error")
    else:
        check(False, f"no error, expected {errno.errorcode[number]}")


@scenario(timeout=120, where="server", loopback=True)
def kerberos_users(rig):
    """Two users have their own rights only. A user without a ticket has none, whatever the modes, also with a link to
    another user's. An open file keeps the rights of its opener."""
    rig.expect("Kerberos", "session")
    with realm_of_users(rig) as folder:
        for name in ("games", "man"):
            kinit(rig, folder, name)
        os.chmod(rig.export, 0o777)
        server = rig.serve([f"/data={rig.export},rw,sec=krb5"], ["--keytab", folder / "server.keytab"])
        point = rig.mount(server, options(rig, folder))
        with acting_as(GAMES):
            (point / "games").write_text("of games")
            os.chmod(point / "games", 0o600)
            lent = os.open(point / "games", os.O_RDWR)
        with acting_as(MAN):
            (point / "man").write_text("of man")
            with fails(errno.EACCES):
                (point / "games").read_text()
            equal(os.pread(lent, 100, 0), b"of games", "what a descriptor of games reads")
            os.pwrite(lent, b"by", 0)  # by the session of games
            os.fsync(lent)
            mine = os.open(point / "copy", os.O_CREAT | os.O_WRONLY, 0o600)
        equal(os.copy_file_range(lent, mine, 100, 0), 8, "bytes copied from a file of games to one of man")
        os.close(mine)
        os.close(lent)
        os.symlink(rig.base / f"cc-{GAMES}", rig.base / f"cc-{WITHOUT}")
        with acting_as(WITHOUT), fails(errno.EACCES):
            os.mkdir(point / "nobody")
        owners = [(rig.export / name).stat().st_uid for name in ("games", "man")]
        equal(owners, [GAMES, MAN], "owners of the files")
        for name in ("games", "copy"):
            equal((rig.export / name).read_text(), "by games", f"the file {name}")
        check(not (rig.export / "nobody").exists(), "a user without a ticket has made a directory")
        _check_helper(rig)
        status, text = rig.run([rig.bin / "dafsctl", "restart", point], cwd="/", status=None)
        check(status != 0 and "no guardian" in text, f"dafsctl restart: {text}")
        rig.umount(point)


def _check_helper(rig):
    """A user who runs the helper gets no token of another user."""
    def ask(uid, cache):
        """Returns the outcome of the helper's reply: 2: no ticket; None: it has ended."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs, subprocess.Popen([rig.bin / "dafs-gss-user", str(uid)], stdin=theirs, user=GAMES, group=GAMES,
                                            extra_groups=[], env={**os.environ, "KRB5CCNAME": f"FILE:{cache}"}) as helper:
            theirs.close()
            reply = b""
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended
                ours.send(b"".join(struct.pack("=I", len(field)) + field for field in (b"127.0.0.1", b"", b"")))
                reply = ours.recv(1 << 17)
            helper.kill()
        return struct.unpack_from("=I", reply)[0] if reply else None

    equal(ask(GAMES, rig.base / f"cc-{GAMES}"), 1, "the helper's outcome for the user's own tickets")
    equal(ask(MAN, rig.base / f"cc-{MAN}"), None, "the helper's outcome for another user")
    check(ask(GAMES, rig.base / f"cc-{MAN}") in (2, None), "the helper has read another user's tickets")


@scenario(timeout=180, where="server", long_only=True, loopback=True)
def kerberos_users_tickets(rig):
    """Tickets of 20 seconds are renewed under load without an error. After kdestroy a session goes on until its ticket
    expires; then, and with an expired ticket, requests fail until there is a new one. With TLS, too."""
    rig.expect("Kerberos", "session", "TLS", "not connected")
    with realm_of_users(rig) as folder:
        authority = Authority(rig)
        os.chmod(rig.export, 0o777)
        server = rig.serve([f"/data={rig.export},rw,sec=krb5p"],
                           ["--keytab", folder / "server.keytab", *tls_arguments(authority)])
        kinit(rig, folder, "games", "-l", "20s")
        point = rig.mount(server, options(rig, folder).replace("krb5", "krb5p", 1) + f",tlsca={authority.ca}")
        ends = threading.Event()

        def renew():
            while not ends.wait(8):
                kinit(rig, folder, "games", "-l", "20s")

        with acting_as(GAMES):  # all threads
            (point / "first").write_text("first")
        thread = threading.Thread(target=renew)
        thread.start()
        try:
            subprocess.run(["setpriv", f"--reuid={GAMES}", "--clear-groups", "bash", "-ec",
                            "for i in {1..450}; do echo $i >$((i % 50)); sleep 0.1; done"], cwd=point, check=True)
        finally:
            ends.set()
            thread.join()

        kinit(rig, folder, "games", "-l", "10s")
        os.unlink(rig.base / f"cc-{GAMES}")  # kdestroy

        def writes():
            with acting_as(GAMES):
                try:
                    (point / "last").write_text("last")
                except OSError as error:
                    return error.errno
            return 0

        equal(writes(), 0, "a write after kdestroy")
        check(processes.wait_until(lambda: writes() == errno.EACCES, 40), "the session has not ended")
        kinit(rig, folder, "games", "-l", "2s")
        time.sleep(5)
        check(processes.wait_until(lambda: writes() == errno.EKEYEXPIRED, 15), "an expired ticket is not named")
        kinit(rig, folder, "games")
        check(processes.wait_until(lambda: writes() == 0, 15), "no session with the new ticket")
        rig.umount(point)


@scenario(timeout=900, where="server", long_only=True, loopback=True)
def kerberos_many_users(rig):
    """1,001 users with max_user_sessions=1000: the last one takes the place of an idle one, which comes back."""
    rig.expect("Kerberos", "session")
    with realm_of_users(rig) as folder:
        os.chmod(rig.export, 0o777)
        server = rig.serve([f"/data={rig.export},rw,sec=krb5"],
                           ["--keytab", folder / "server.keytab", "--max-sessions", "2048",
                            "--max-sessions-per-address", "2048"])
        # All users have tickets of games: the server sees one principal with many clients.
        kinit(rig, folder, "games")
        ticket = (rig.base / f"cc-{GAMES}").read_bytes()
        point = rig.mount(server, options(rig, folder) + ",max_user_sessions=1000")
        for uid in range(20000, 21001):
            cache = rig.base / f"cc-{uid}"
            cache.write_bytes(ticket)
            os.chmod(cache, 0o600)
            os.chown(cache, uid, 0)
            with acting_as(uid):
                (point / str(uid)).write_text("x")
        with acting_as(20000):
            (point / "again").write_text("x")
        equal(len(list(rig.export.glob("[!.]*"))), 1002, "files")
        users = json.loads(rig.run([rig.bin / "dafsctl", "status", "--json", point], cwd="/"))["users"]
        equal(len(users), 1000, "sessions of users")
        check({20000, 21000} < {user["uid"] for user in users}, "the last users have no sessions")
        rig.umount(point)
