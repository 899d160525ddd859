"""Memory maps: executables run from the mount, shared and private maps written."""

import errno
import mmap
import os
import shutil

import processes
from rig import check, equal, errno_of, scenario


@scenario(timeout=60, variants=True)
def execute(rig):
    """An executable, a script and a shared library on the mount run; a running program cannot be written."""
    program = rig.root / "program"
    shutil.copy("/usr/bin/sha256sum", program)
    equal(rig.run([program, "--version"]), rig.run(["/usr/bin/sha256sum", "--version"]), "what the copy prints")
    script = rig.root / "script"
    script.write_text('#!/bin/sh\necho "script ran: $1"\n')
    equal(errno_of(os.execv, script, ["script"]), errno.EACCES, "a script without the x bit")
    script.chmod(0o755)
    equal(rig.run([script, "yes"]), "script ran: yes\n", "script")
    rig.need("g++")
    (rig.root / "lib.cc").write_text('extern "C" int Answer() { return 42; }\n')
    (rig.root / "main.cc").write_text('extern "C" int Answer();\nint main() { return Answer(); }\n')
    rig.run(["g++", "-shared", "-fPIC", "-o", "liba.so", "lib.cc"])
    rig.run(["g++", "-o", "main", "main.cc", "-L.", "-la", "-Wl,-rpath,$ORIGIN"])
    rig.run(["./main"], status=42)
    sleeper = rig.root / "sleeper"
    shutil.copy("/usr/bin/sleep", sleeper)
    pid = os.posix_spawn(sleeper, [str(sleeper), "60"], os.environ)
    try:
        started = processes.wait_until(lambda: os.readlink(f"/proc/{pid}/exe") == str(sleeper), 5)
        check(started, "the program does not start")
        equal(errno_of(os.open, sleeper, os.O_WRONLY), errno.ETXTBSY, "writing a running program")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@scenario(timeout=60, variants=True)
def mapped(rig):
    """Shared maps: written, synced, seen by read(2), by another process and on the server."""
    size = 8 << 20
    path = rig.root / "mapped"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, size)
    with mmap.mmap(descriptor, size) as shared:
        for offset in range(0, size, 4096):
            shared[offset:offset + 8] = offset.to_bytes(8, "little")
        shared[-5:] = b"final"
        shared.flush()
        equal(os.pread(descriptor, 8, 40960), (40960).to_bytes(8, "little"), "read(2) of what was mapped")
        os.pwrite(descriptor, b"written", 100)
        equal(shared[100:107], b"written", "map of what was written")
        child = os.fork()
        if child == 0:
            shared[4096:4101] = b"child"
            os._exit(0)
        os.waitpid(child, 0)
        equal(shared[4096:4101], b"child", "what another process wrote")
    os.fsync(descriptor)
    os.close(descriptor)
    data = path.read_bytes()
    equal((len(data), data[-5:], data[4096:4101], data[100:107]), (size, b"final", b"child", b"written"), "the file")
    check(all(data[o:o + 8] == o.to_bytes(8, "little") for o in range(8192, size, 4096)), "a page of the file")
    if rig.behind is not None:
        check((rig.behind / "mapped").read_bytes() == data, "the exported file differs")
    descriptor = os.open(path, os.O_RDONLY)
    with mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as private:
        private[0:5] = b"local"
    os.close(descriptor)
    check(path.read_bytes() == data, "a private map changed the file")
