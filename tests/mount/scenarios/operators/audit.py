"""The audit log of dafsd: who did what, whatever the names of files are, and over a rotation."""

import errno
import json
import os
import signal
import stat
import subprocess

import processes
from rig import acting_as, check, equal, errno_of, scenario
from scenarios.mounting.mounting import refused

NOBODY = 65534
# Names that would end a line, a text or an object, control a terminal, or are not UTF-8.
HOSTILE = (b'a\nb', b'x","class":"admin","y":"', b"\x1b]0;title\x07", b"\xff\xfe", "caf\u00e9 \u202e".encode())


def records(path):
    """The records of an audit log: each line is one JSON object."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    equal(lines.pop(), b"", "the end of the last record")
    return [json.loads(line) for line in lines]


def named(record, key="path"):
    """The bytes of a path in a record."""
    exact = record.get(f"{key}_bytes")
    return bytes.fromhex(exact) if exact is not None else record[key].encode()


@scenario(timeout=60, where="server")
def audit_log(rig):
    """Records of opens, changes, rights, denials and commands name the user and the path; a renamed file is left on
    SIGHUP, and other users cannot read the log."""
    audit = rig.base / "audit.json"
    server = rig.serve(arguments=["--audit", audit, "--audit-classes", "all"])
    point = os.fsencode(rig.mount(server))
    exported = os.fsencode(str(rig.export))
    os.chmod(rig.export, 0o777)
    for name in HOSTILE:
        with open(os.path.join(point, name), "wb") as file:
            file.write(b"x")
    os.chmod(os.path.join(point, HOSTILE[0]), 0o640)
    os.rename(os.path.join(point, HOSTILE[0]), os.path.join(point, b"renamed"))
    os.unlink(os.path.join(point, HOSTILE[1]))

    def in_log(*wanted):
        """Waits for a record with these members; returns it."""
        found = []

        def appears():
            found[:] = [one for one in records(audit) if dict(wanted).items() <= one.items()]
            return bool(found)

        check(processes.wait_until(appears, 10 * rig.slowness), f"no record with {wanted}")
        return found[-1]

    in_log(("op", "REMOVE"), ("class", "change"), ("uid", 0), ("result", "DAFS_STATUS_OK"))
    opened = {named(one) for one in records(audit) if one["class"] == "open" and "path" in one}
    for name in HOSTILE:
        check(os.path.join(exported, name) in opened, f"no open of {name}: {opened}")
    equal(in_log(("class", "acl"))["mode"] & 0o777, 0o640, "mode")
    renamed = [one for one in records(audit) if one["op"].startswith("RENAME")][-1]
    equal(named(renamed, "from"), os.path.join(exported, HOSTILE[0]), "former name")
    equal(named(renamed), os.path.join(exported, b"renamed"), "new name")

    # Also what it writes after close(2), from its own memory, and what it reads of a delegation.
    with open(rig.mnt / "used", "wb") as file:
        file.write(b"x" * 300000)
        os.fsync(file.fileno())
    with open(rig.mnt / "used", "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        equal(len(file.read()), 300000, "bytes read")

    equal(in_log(("op", "START"))["class"], "admin", "class of the start")
    check(stat.S_IMODE(os.stat(audit).st_mode) == 0o600, "others can read the log")

    os.rename(audit, rig.base / "old.json")
    os.kill(server.process.pid, signal.SIGHUP)
    check(processes.wait_until(audit.exists, 10 * rig.slowness), "no new file")
    in_log(("op", "RELOAD"), ("by", "SIGHUP"))
    with acting_as(NOBODY):
        (rig.mnt / "of-nobody").write_text("x")
    in_log(("op", "OPEN"), ("uid", NOBODY))
    status = json.loads(subprocess.run([rig.bin / "dafsctl", "server", "status", "--json", "--socket",
                                        server.socket], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       timeout=30, check=True).stdout)
    equal(status["audit"]["dropped"], 0, "dropped records")
    rig.umount()
    in_log(("op", "DISCONNECT"), ("class", "auth"))
    ends = [one for one in records(rig.base / "old.json") + records(audit)
            if "read_bytes" in one and one.get("path", "").endswith("/used")]
    equal(sum(one["written_bytes"] for one in ends), 300000, f"bytes written: {ends}")
    check(sum(one["read_bytes"] for one in ends) >= 300000, f"bytes read: {ends}")
    check(all("uid" in one for one in records(rig.base / "old.json") if one["class"] in ("open", "change", "acl")),
          "a record names no user")


@scenario(timeout=60, where="server")
def audit_denials(rig):
    """Refusals are recorded with their reason, by default together with changes of rights."""
    audit = rig.base / "audit.json"
    rig.expect("refused")
    server = rig.serve([f"/data={rig.export},rw,root_squash", f"/closed={rig.local},clients=192.0.2.0/24"],
                       ["--audit", audit])
    (rig.export / "secret").write_text("x")
    os.chmod(rig.export / "secret", 0o600)
    rig.mount(server)
    equal(errno_of(os.open, rig.mnt / "secret", os.O_RDONLY), errno.EACCES, "root of the client opens it")

    def denied(result):
        return [one for one in records(audit) if one["class"] == "deny" and one["result"] == result]

    check(processes.wait_until(lambda: denied("DAFSERR_ACCES"), 10 * rig.slowness), f"no denial: {records(audit)}")
    equal(denied("DAFSERR_ACCES")[0]["path"], str(rig.export / "secret"), "path")
    rig.umount()
    refused(rig, f"{rig.address}:{server.port}:/closed")
    refused(rig, f"{rig.address}:{server.port}:/nothing")
    check(processes.wait_until(lambda: denied("DAFSERR_NOENT"), 10 * rig.slowness), "no denial of a hidden export")
    check(all("closed" in json.dumps(one) for one in denied("DAFSERR_NOENT")), "an absent name was denied")
    check({one["class"] for one in records(audit)} <= {"auth", "acl", "deny", "admin"}, "classes")
