"""The directory of an export is replaced or covered while the server runs."""

import errno
import os
import shutil
import subprocess

import processes
from rig import check, equal, errno_of, scenario

SERVED = "the path leads to another directory, which is served from now on"


def shows(rig, names):
    """Waits until the root of the mount has exactly these names: the server looks at the path every few seconds."""
    check(processes.wait_until(lambda: errno_of(os.listdir, rig.mnt) == 0 and sorted(os.listdir(rig.mnt)) == names,
                               20 * rig.slowness), f"the mount does not show {names}")


@scenario(timeout=120, where="server")
def replaced_directory(rig):
    """After rm -rf and mkdir of the exported directory, a mount shows the new one; open files stay usable."""
    rig.expect("filehandle of the mount's root is no longer valid")
    server = rig.serve()
    rig.mount(server)
    (rig.export / "file").write_text("old")
    (rig.export / "directory").mkdir()
    equal((rig.mnt / "file").read_text(), "old", "a file that the kernel knows")
    os.listdir(rig.mnt / "directory")
    with open(rig.mnt / "held", "w+", encoding="ascii") as held:
        held.write("held")
        held.flush()
        os.fsync(held.fileno())
        for round_number in (1, 2):
            shutil.rmtree(rig.export)
            rig.export.mkdir()
            os.chmod(rig.export, 0o777)
            (rig.export / "file").write_text(f"new {round_number}")
            (rig.export / "directory").mkdir()
            shows(rig, ["directory", "file"])
            equal((rig.mnt / "file").read_text(), f"new {round_number}", "the same name")
            (rig.mnt / "directory/made").write_text("made")
            equal((rig.export / "directory/made").read_text(), "made", "what is written in a directory that it knew")
            equal(os.stat(rig.mnt).st_ino, os.stat(rig.export).st_ino, "the root's number")
            check(processes.wait_until(lambda: server.log.read_text().count(SERVED) == round_number, 5),
                  f"lines about it in the log: {server.log.read_text().count(SERVED)}, expected {round_number}")
        held.seek(0)
        equal(errno_of(held.read), 0, "read of a file that was removed with its directory")
    rig.umount()
    server.stop()


@scenario(timeout=120, where="server")
def replaced_by_mount(rig):
    """A file system mounted on the exported directory is what a mount shows, until it is unmounted."""
    rig.expect("filehandle of the mount's root is no longer valid")
    server = rig.serve()
    (rig.export / "below").write_text("below")
    rig.mount(server)
    held = os.open(rig.mnt / "below", os.O_RDWR)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "dafs-test", rig.export], check=True)
    try:
        (rig.export / "above").write_text("above")
        shows(rig, ["above"])
        equal((rig.mnt / "above").read_text(), "above", "a file of the mounted file system")
        (rig.mnt / "made").write_text("made")
        equal((rig.export / "made").read_text(), "made", "what is written")
        os.pwrite(held, b"BELOW", 0)  # goes on in the directory below
        os.fsync(held)
    finally:
        subprocess.run(["umount", "-l", rig.export], check=True)
    shows(rig, ["below"])
    equal((rig.mnt / "below").read_text(), "BELOW", "what was written to the file that was open")
    os.close(held)
    equal(server.log.read_text().count(SERVED), 2, "lines about it in the log")
    rig.umount()
    server.stop()


@scenario(timeout=120, where="server")
def replaced_by_unsafe(rig):
    """A directory that would show the state directory is refused, which the log says once."""
    rig.expect("cannot be served", "clients of export")
    server = rig.serve()
    (rig.export / "file").write_text("old")
    rig.mount(server)
    old = rig.base / "old"
    rig.export.rename(old)
    rig.export.symlink_to(rig.base)
    refused = f"clients of export /data can reach it by {rig.export}"
    check(processes.wait_until(lambda: refused in server.log.read_text(), 20 * rig.slowness),
          "the refusal is not logged")
    equal((rig.mnt / "file").read_text(), "old", "a file of the directory before")
    point = rig.base / "point"
    point.mkdir()
    for _ in range(2):
        done = subprocess.run(rig.mount_command(f"{rig.address}:{server.port}:/data", point),
                              stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=60, check=False)
        check(done.returncode != 0, "an export that shows the state directory is mounted")
    equal(server.log.read_text().count(refused), 1, "lines about it in the log")
    rig.export.unlink()
    old.rename(rig.export)
    equal((rig.mnt / "file").read_text(), "old", "a file after the path was restored")
    equal(errno.errorcode.get(errno_of(os.stat, rig.mnt / "absent")), "ENOENT", "an absent file")
    rig.umount()
    server.stop()
