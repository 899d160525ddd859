"""sec=krb5p with a dafsd that is killed, and that loses uncommitted data: what each user wrote is written again as that
user, and never over what another one wrote later."""

import itertools
import os
import pwd
import signal

import processes
from changes import Load
from rig import acting_as, check, equal, scenario
from scenarios.recovery.failures import check_loads
from .kerberos_users import GAMES, MAN, kinit, options, realm_of_users
from .tls import Authority, tls_arguments


class LoadOfUser(Load):
    """A load that runs as a user."""

    def __init__(self, directory, seed, name):
        super().__init__(directory, seed)
        self.user = pwd.getpwnam(name)

    def main(self, count):
        os.setgroups([])
        os.setresgid(*[self.user.pw_gid] * 3)
        os.setresuid(*[self.user.pw_uid] * 3)
        super().main(count)


def _lose(server):
    """Kills the server. Clients then see one that has lost all uncommitted data."""
    server.stop(signal.SIGKILL)
    (server.state / "write-verifier").unlink()


def _write(user, path, data, offset=0, mode=None):
    """Writes without fsync; with `mode` into a new file."""
    with acting_as(user):
        descriptor = os.open(path, os.O_WRONLY | (0 if mode is None else os.O_CREAT | os.O_EXCL), 0o600)
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.pwrite(descriptor, data, offset)
        os.close(descriptor)


@scenario(timeout=300, where="server", long_only=True, loopback=True)
def kerberos_users_recovery(rig):
    """Changes of two users are made once while dafsd is killed, and no program sees an error. Data that the server has
    lost is written again as the user who wrote it, and not over later changes of another user."""
    rig.expect("Kerberos", "session", "TLS", "not connected", "written again", "write-verifier: missing")
    with realm_of_users(rig) as folder:
        authority = Authority(rig)
        os.chmod(rig.export, 0o777)
        for name in ("games", "man"):
            kinit(rig, folder, name)
        server = rig.serve([f"/data={rig.export},rw,sec=krb5p"],
                           ["--keytab", folder / "server.keytab", *tls_arguments(authority)])
        point = rig.mount(server, options(rig, folder).replace("krb5", "krb5p", 1) + f",tlsca={authority.ca}")

        loads = [LoadOfUser(str(point / f"load-{name}"), seed, name).start()
                 for seed, name in enumerate(("games", "man"))]
        for _ in range(5):
            before = [load.changes for load in loads]
            check(processes.wait_until(lambda: all(load.failed.value or load.changes > count + 20 for load, count in
                                                   zip(loads, before)), 60 * rig.slowness), "no change in 60 s")
            server.stop(signal.SIGKILL)
            server.start()
        check_loads(loads, rig.export, 60 * rig.slowness)

        # Only its user may write the file; the server has lost its data.
        for user in (GAMES, MAN):
            _write(user, point / f"private-{user}", b"x" * 5000, mode=0o600)
        _lose(server)
        for user in (GAMES, MAN):
            (rig.export / f"private-{user}").write_bytes(b"\0" * 5000)
        server.start()
        for user in (GAMES, MAN):
            with acting_as(user):
                descriptor = os.open(point / f"private-{user}", os.O_RDWR)
                os.fsync(descriptor)
                os.close(descriptor)
            equal((rig.export / f"private-{user}").read_bytes(), b"x" * 5000, "data that was written again")
            equal((rig.export / f"private-{user}").stat().st_uid, user, "the owner of a file")

        # Both write a file. The later write, or truncation, counts.
        expected = {}
        for number, (first, second) in enumerate(itertools.islice(itertools.cycle(((GAMES, MAN), (MAN, GAMES))), 20)):
            name = f"both-{number}"
            _write(first, point / name, b"1" * 8192, mode=0o666)
            if number % 4 < 2:
                _write(second, point / name, b"2" * 4096, 1024)
                expected[name] = b"1" * 1024 + b"2" * 4096 + b"1" * 3072
            else:
                with acting_as(second):
                    os.truncate(point / name, 100)
                expected[name] = b"1" * 100
        _lose(server)
        server.start()
        rig.umount(point)  # commits everything
        for name, data in expected.items():
            equal((rig.export / name).read_bytes(), data, name)
