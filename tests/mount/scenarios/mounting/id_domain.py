"""An ID-mapping domain: server and client have different numbers for one user."""

import os
import pwd
import shutil

from rig import Server, acting_as, check, equal, errno_of, scenario
from .kerberos import realm

DOMAIN = "dafs.test"
# What /etc/passwd and /etc/group of the server say. The client has other numbers for these names.
THERE = {"daemon": 7001, "games": 7002}
WITHOUT_NAME = 7999


class OtherMachine(Server):
    """A dafsd in a mount namespace, with an /etc of its own."""

    def __init__(self, rig, exports, arguments=()):
        super().__init__(rig, exports, arguments)
        self.etc = rig.base / "etc"
        shutil.copytree("/etc", self.etc, symlinks=True, ignore_dangling_symlinks=True)
        for file, field in (("passwd", 2), ("group", 2)):
            lines = [line.split(":") for line in (self.etc / file).read_text().splitlines()]
            for words in lines:
                if words[0] in THERE:
                    words[field] = str(THERE[words[0]])
                    if file == "passwd":
                        words[3] = words[2]
            (self.etc / file).write_text("".join(":".join(words) + "\n" for words in lines))

    def command(self, words):
        within = 'mount --bind "$1" /etc && shift && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", within, "sh", str(self.etc), *words]


def served(rig, arguments=()):
    """Serves `rig.export` from a machine with the users of THERE."""
    server = OtherMachine(rig, [f"/data={rig.export},rw,no_root_squash"], ["--id-domain", DOMAIN, *arguments])
    rig.servers.append(server)
    return server.start()


def owned(path, user, group):
    path.write_text("content")
    os.chown(path, user, group)


@scenario(timeout=90, where="server", loopback=True)
def owners_by_name(rig):
    """Owners are shown and set by name: stat, listings, chown, access control lists; numbers without a name stay."""
    here = {name: pwd.getpwnam(name).pw_uid for name in THERE}
    groups = {name: pwd.getpwnam(name).pw_gid for name in THERE}
    owned(rig.export / "of-daemon", THERE["daemon"], THERE["games"])
    owned(rig.export / "of-root", 0, 0)
    owned(rig.export / "without-name", WITHOUT_NAME, WITHOUT_NAME)
    for number in range(300):
        owned(rig.export / f"many-{number}", THERE["games" if number % 2 else "daemon"], 0)
    point = rig.mount(served(rig), f"id_domain={DOMAIN}")

    def ids(path):
        info = path.stat()
        return info.st_uid, info.st_gid

    equal(ids(point / "of-daemon"), (here["daemon"], groups["games"]), "owner and group of a file")
    equal(ids(point / "of-root"), (0, 0), "those of root's")
    equal(ids(point / "without-name"), (WITHOUT_NAME, WITHOUT_NAME), "numbers that have no name")
    with os.scandir(point) as entries:
        listed = {entry.name: entry.stat().st_uid for entry in entries if entry.name.startswith("many-")}
    equal(listed, {f"many-{number}": here["games" if number % 2 else "daemon"] for number in range(300)},
          "owners in a listing")

    path = point / "of-root"
    os.chown(path, here["games"], groups["daemon"])
    equal(ids(path), (here["games"], groups["daemon"]), "after chown")
    equal(ids(rig.export / "of-root"), (THERE["games"], THERE["daemon"]), "after chown, at the server")
    os.chown(path, WITHOUT_NAME - 1, -1)
    equal((rig.export / "of-root").stat().st_uid, WITHOUT_NAME - 1, "after chown to a number without a name")
    with acting_as(here["daemon"]):
        equal(errno_of(os.chown, path, here["daemon"], -1), 1, "chown by a user")


@scenario(timeout=60, where="server", loopback=True)
def acl_by_name(rig):
    """Entries of access control lists name users of the ID-mapping domain; unknown names are refused."""
    rig.need("nfs4_getfacl", "nfs4_setfacl", "getfacl")
    point = rig.mount(served(rig), f"id_domain={DOMAIN}")
    path = point / "file"
    owned(path, 0, 0)
    rig.run(["nfs4_setfacl", "-a", f"A::daemon@{DOMAIN}:rwa", path])
    listed = rig.run(["nfs4_getfacl", path])
    check(f"A::daemon@{DOMAIN}:rwa" in listed, f"no entry of daemon in {listed}")
    at_server = rig.run(["getfacl", "-cnp", rig.export / "file"])
    check(f"user:{THERE['daemon']}:rw-" in at_server, f"the server has {at_server}")
    for unknown in (f"no-such-user@{DOMAIN}", "daemon@elsewhere.test"):
        code, _ = rig.run(["nfs4_setfacl", "-a", f"A::{unknown}:r", path], status=None)
        check(code != 0, f"{unknown} was taken")


@scenario(timeout=120, where="server", loopback=True)
def principals_by_idmapd_conf(rig):
    """idmapd.conf says which user a Kerberos principal is."""
    with realm(rig) as folder:
        server = OtherMachine(rig, [f"/data={rig.export},rw,sec=krb5"],
                              ["--id-domain", DOMAIN, "--keytab", folder / "server.keytab"])
        (server.etc / "idmapd.conf").write_text(
            "[General]\nLocal-Realms = DAFS.TEST\n[Translation]\nMethod = nsswitch\nGSS-Methods = static,nsswitch\n"
            "[Static]\nalice@DAFS.TEST = games\nhost/client.test@DAFS.TEST = daemon\n")
        rig.servers.append(server)
        server.start()
        os.chmod(rig.export, 0o777)
        point = rig.mount(server, f"sec=krb5,keytab={folder}/client.keytab,id_domain={DOMAIN}")
        (point / "of-machine").write_text("x")
        equal((rig.export / "of-machine").stat().st_uid, THERE["daemon"], "the user of the machine's principal")
