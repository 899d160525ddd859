"""Many users on one mount: each has exactly the rights that the files give."""

import errno
import mmap
import os
import shlex
import stat

import pytest

from rig import check, equal, scenario

from .ranges import KEEP, PAGE, PUNCH, ZERO, fallocate

NOBODY = 65534
OTHER = 12345


def as_user(uid, action, groups=()):
    """Runs `action` in a child as `uid` (gid the same); returns its errno, 0 if it worked."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 255
        try:
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            action()
            status = 0
        except OSError as error:
            os.write(write_end, str(error).encode())
            status = error.errno
        finally:
            os._exit(status)
    os.close(write_end)
    text = os.read(read_end, 1000)
    os.close(read_end)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"as {uid}: {status} {text.decode()}", flush=True)
    return status


def write(path, data=b"data", mode=0o666):
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, mode)
    os.write(descriptor, data)
    os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        return file.read()


@scenario(timeout=60, variants=True)
def users(rig):
    """Permissions of two users, groups, sticky and setgid directories, setuid bits, chown."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.umask(0o022)
    os.chdir(rig.root)
    os.mkdir("common")
    os.chmod("common", 0o1777)
    equal(as_user(NOBODY, lambda: write("common/mine")), 0, "a user's file in a common directory")
    status = os.stat("common/mine")
    equal((status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)), (NOBODY, NOBODY, 0o644), "its owner and mode")
    equal(as_user(OTHER, lambda: read("common/mine")), 0, "another user reading it")
    equal(as_user(OTHER, lambda: write("common/mine")), errno.EACCES, "another user writing it")
    equal(as_user(OTHER, lambda: os.unlink("common/mine")), errno.EPERM, "removing it from a sticky directory")
    equal(as_user(OTHER, lambda: os.chmod("common/mine", 0o777)), errno.EPERM, "another user's chmod")
    equal(as_user(NOBODY, lambda: os.chown("common/mine", OTHER, -1)), errno.EPERM, "giving a file away")
    equal(as_user(OTHER, lambda: os.utime("common/mine", ns=(1, 1))), errno.EPERM, "another user's utime")
    equal(as_user(NOBODY, lambda: os.chmod("common/mine", 0o600)), 0, "the owner's chmod")
    equal(as_user(OTHER, lambda: read("common/mine")), errno.EACCES, "another user reading a 0600 file")
    equal(as_user(NOBODY, lambda: read("common/mine")), 0, "its owner reading it")
    equal(read("common/mine"), b"data", "root reading it")

    os.mkdir("private", 0o700)
    write("private/secret")
    os.stat("private/secret")  # now the kernel has the name
    equal(as_user(NOBODY, lambda: read("private/secret")), errno.EACCES, "a file in another's 0700 directory")
    equal(as_user(NOBODY, lambda: os.listdir("private")), errno.EACCES, "listing it")
    equal(as_user(NOBODY, lambda: os.mkdir("sub")), errno.EACCES, "mkdir in a directory of root's")
    equal(as_user(NOBODY, lambda: os.rename("private", "taken")), errno.EACCES, "renaming in it")

    _groups()
    _special_bits()
    os.chdir("/")


def _groups():
    write("grouped")
    os.chown("grouped", 0, 7777)
    os.chmod("grouped", 0o640)
    equal(as_user(NOBODY, lambda: read("grouped")), errno.EACCES, "a group's file without the group")
    equal(as_user(NOBODY, lambda: read("grouped"), [7777]), 0, "with the supplementary group")
    many = [*range(9000, 9015), 7777]
    equal(as_user(NOBODY, lambda: read("grouped"), many), 0, "with sixteen groups")
    os.mkdir("team")
    os.chown("team", 0, 7777)
    os.chmod("team", 0o2775)
    equal(as_user(NOBODY, lambda: write("team/file"), [7777]), 0, "a file in the group's directory")
    equal(os.stat("team/file").st_gid, 7777, "group of a file in a setgid directory")
    equal(as_user(NOBODY, lambda: os.mkdir("team/dir"), [7777]), 0, "mkdir in the group's directory")
    check(os.stat("team/dir").st_mode & stat.S_ISGID, "a directory in a setgid directory lacks the bit")


def _special_bits():
    os.mkdir("open")  # not sticky: there, fs.protected_regular may forbid opens with O_CREAT
    os.chmod("open", 0o777)
    write("open/tool")
    os.chown("open/tool", OTHER, OTHER)
    os.chmod("open/tool", 0o4777)
    equal(as_user(NOBODY, lambda: write("open/tool", b"changed")), 0, "writing a setuid file that anyone may write")
    check(not os.stat("open/tool").st_mode & stat.S_ISUID, "the setuid bit outlived another user's write")
    os.chmod("open/tool", 0o4755)
    os.chown("open/tool", NOBODY, NOBODY)
    check(not os.stat("open/tool").st_mode & stat.S_ISUID, "the setuid bit outlived chown")
    equal(as_user(NOBODY, lambda: os.mknod("open/device", stat.S_IFCHR | 0o666, os.makedev(1, 3))), errno.EPERM,
          "a user's mknod of a device")
    equal(as_user(NOBODY, lambda: os.mkfifo("open/fifo")), 0, "a user's FIFO")


@scenario(timeout=60, where="server", loopback=True)
def pid_namespace(rig):
    """mount.dafs in a PID namespace of its own: callers have the groups of the user database, and this is logged."""
    rig.need("unshare", "setpriv")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (rig.export / "grouped").write_text("data")
    os.chown(rig.export / "grouped", 0, 7777)
    os.chmod(rig.export / "grouped", 0o640)
    (rig.local / "passwd").write_text("root:x:0:0::/:\nmember:x:4321:4321::/:\nother:x:4322:4322::/:\n")
    (rig.local / "group").write_text("root:x:0:\nmember:x:4321:\nother:x:4322:\nteam:x:7777:member\n")
    server = rig.serve()
    command = rig.mount_command(f"{rig.address}:{server.port}:/data", rig.mnt, "") + ["-f"]
    log = rig.logs / "mount.dafs.log"
    # In a mount namespace of its own, which takes the mount with it.
    script = f"""
        set -e
        # Otherwise these copies would keep the mounts of other scenarios after their umount.
        (grep ' - fuse.dafs ' /proc/self/mountinfo || true) | cut -d ' ' -f 5 | xargs -r -n 1 umount -cil || true
        mount --bind {rig.local}/passwd /etc/passwd
        mount --bind {rig.local}/group /etc/group
        unshare --pid --fork --kill-child {shlex.join(command)} </dev/null >>{log} 2>&1 &
        for i in $(seq 300); do mountpoint -q {rig.mnt} && break; sleep 0.1; done
        as() {{ setpriv --reuid "$1" --regid "$1" --groups "$2" cat {rig.mnt}/grouped 2>&1 || true; echo; }}
        as 4321 7777
        as 4322 4322
        umount {rig.mnt}
        wait
    """
    lines = rig.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", script], cwd="/", timeout=50).split("\n")
    equal(lines[0], "data", "a member of the group")
    check("Permission denied" in lines[1], f"a user without the group: {lines}")
    said = [line for line in log.read_text().splitlines() if "the user database" in line]
    equal(len(said), 1, "lines about the user database")


@scenario(timeout=60, where="server")
def squash(rig):
    """By default the server maps root to the anonymous user."""
    rig.export.chmod(0o755)
    (rig.export / "open").mkdir()
    (rig.export / "open").chmod(0o777)
    write(rig.export / "secret", mode=0o600)
    server = rig.serve([f"/data={rig.export}"])
    root = rig.mount(server)
    write(root / "open" / "file")
    status = (rig.export / "open" / "file").stat()
    equal((status.st_uid, status.st_gid), (65534, 65534), "owner of what root wrote")
    for what, action in {
            "reading root's 0600 file": lambda: read(root / "secret"),
            "writing in root's 0755 directory": lambda: write(root / "new"),
    }.items():
        refused = 0
        try:
            action()
        except OSError as error:
            refused = error.errno
        check(refused in (errno.EACCES, errno.EPERM), f"{what}: errno {refused}")
    write(rig.export / "open" / "users", mode=0o600)
    os.chown(rig.export / "open" / "users", OTHER, OTHER)
    equal(as_user(OTHER, lambda: read(root / "open" / "users")), 0, "a user, who is not squashed")


def change_with(flags, change):
    """Returns a function that opens t with `flags` and changes it."""

    def run():
        descriptor = os.open("t", flags)
        change(descriptor)
        os.close(descriptor)

    return run


def write_page(descriptor):
    page = mmap.mmap(-1, PAGE)  # O_DIRECT wants memory on a page boundary
    os.pwritev(descriptor, [page], 0)


def copy_range(descriptor):
    source = os.open("source", os.O_RDONLY)
    equal(os.copy_file_range(source, descriptor, PAGE), PAGE, "copied")
    os.close(source)


SET_ID_CHANGES = {
    "write": change_with(os.O_RDWR, lambda d: os.write(d, b"x")),
    "O_SYNC write": change_with(os.O_RDWR | os.O_SYNC, lambda d: os.write(d, b"x")),
    "O_DIRECT write": change_with(os.O_RDWR | os.O_DIRECT, write_page),
    "append": change_with(os.O_RDWR | os.O_APPEND, lambda d: os.write(d, b"x")),
    "fallocate": change_with(os.O_RDWR, lambda d: fallocate(d, 0, 0, 2 * PAGE)),
    "fallocate, same size": change_with(os.O_RDWR, lambda d: fallocate(d, KEEP, 0, 2 * PAGE)),
    "punch hole": change_with(os.O_RDWR, lambda d: fallocate(d, KEEP | PUNCH, 0, PAGE)),
    "zero range": change_with(os.O_RDWR, lambda d: fallocate(d, ZERO, 0, PAGE)),
    "copy_file_range": change_with(os.O_RDWR, copy_range),
    "ftruncate": change_with(os.O_RDWR, lambda d: os.ftruncate(d, 3)),
    "truncate": lambda: os.truncate("t", 3),
    "O_TRUNC": change_with(os.O_RDWR | os.O_TRUNC, lambda d: None),
}


@scenario(timeout=60, where="server")
def users_set_id_bits(rig):
    """The kernel shows at once that another user's change of a file's data has removed its set-id bits."""
    os.chdir(rig.mount(rig.serve()))
    os.chmod(".", 0o777)
    write("source", b"s" * PAGE)

    def shown():  # stat requests only the mode, so the kernel has no other reason to ask the server
        return int(rig.run(["stat", "-c", "%a", rig.mnt / "t"], cwd="/"), 8)

    for what, change in SET_ID_CHANGES.items():
        write("t", b"t" * PAGE)
        os.chmod("t", 0o6777)
        equal(shown(), 0o6777, f"mode before {what}")
        failed = as_user(NOBODY, change)
        if failed == errno.EOPNOTSUPP:  # of the export's file system
            continue
        equal(failed, 0, what)
        equal(oct(shown()), oct(0o777), f"mode after {what}")
        equal(oct(stat.S_IMODE((rig.export / "t").stat().st_mode)), oct(0o777), f"mode at the server after {what}")
        os.unlink("t")
    write("t", b"t" * PAGE)
    os.chmod("t", 0o6777)
    SET_ID_CHANGES["write"]()
    equal(oct(shown()), oct(0o6777), "mode after a write by root")
    os.chdir("/")
