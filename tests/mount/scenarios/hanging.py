"""A file system behind an export that hangs: its own requests wait, those of other exports do not."""

import os
import signal
import subprocess

import processes
from rig import check, equal, scenario

ASKERS = {
    "stat": "os.stat(path + '/seen')",
    "lookup": "os.path.exists(path + f'/absent{number}')",
    "read": "open(path + f'/f{number}').read()",
    "write": "open(path + f'/new{number}', 'w').write('x')",
    "list": "os.listdir(path + f'/d{number}')",
    "remove": "os.unlink(path + f'/gone{number}')",
}
WORK = """import os, sys
path = sys.argv[1]
for i in range(20):
    with open(f"{path}/f{i}", "w") as file:
        file.write("x" * 100000)
        file.flush()
        os.fsync(file.fileno())
assert len(os.listdir(path)) == 21, os.listdir(path)
for i in range(20):
    os.rename(f"{path}/f{i}", f"{path}/g{i}")
    assert len(open(f"{path}/g{i}").read()) == 100000
with open(f"{path}/cold") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert len(file.read()) == 1 << 20
for i in range(20):
    os.unlink(f"{path}/g{i}")
os.listdir(os.path.dirname(path))
"""


@scenario(timeout=180, where="server")
def hung_backing(rig):
    """While the file system of one export hangs, more requests wait than a server has threads; others are served."""
    backing, middle, hung = rig.base / "backing", rig.base / "middle", rig.base / "hung"
    for directory in (backing, middle, hung):
        directory.mkdir()
    count = 24
    (backing / "seen").write_text("seen")
    for number in range(count):
        (backing / f"f{number}").write_text("f")
        (backing / f"gone{number}").write_text("gone")
        (backing / f"d{number}").mkdir()
    (rig.export / "work").mkdir()
    (rig.export / "work" / "cold").write_bytes(b"c" * (1 << 20))
    inner = rig.serve([f"/inner={backing},no_root_squash"])
    rig.mount(inner, "noac", export="/inner", point=middle)  # a FUSE file system, which hangs with its server
    server = rig.serve([f"/hung={middle},no_root_squash,handles=lasting", f"/data={rig.export},no_root_squash"],
                       arguments=["--threads", "1"])
    rig.mount(server, "noac", export="/hung", point=hung)
    rig.mount(server, "noac")
    equal((hung / "seen").read_text(), "seen", "a file of the export that will hang")
    os.kill(inner.process.pid, signal.SIGSTOP)
    askers = []
    try:
        for number in range(count):
            what = list(ASKERS.values())[number % len(ASKERS)]
            code = f"import os\npath, number = {str(hung)!r}, {number}\nprint('asks', flush=True)\n{what}\n"
            askers.append(subprocess.Popen(["python3", "-c", code], cwd="/", stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE))
        for asker in askers:
            asker.stdout.readline()
        rig.run(["python3", "-c", WORK, rig.mnt / "work"], cwd="/", timeout=30)
        waiting = sum(asker.poll() is None for asker in askers)
        check(waiting > 8, f"only {waiting} requests wait: the server has as many threads for disks")
    finally:
        os.kill(inner.process.pid, signal.SIGCONT)
        ended = processes.wait_until(lambda: all(asker.poll() is not None for asker in askers), 60)
        for asker in askers:
            if asker.poll() is None:
                asker.kill()
    check(ended, "a request still waits although its file system is there again")
    equal([asker.returncode for asker in askers], [0] * count, "exit statuses of what waited")
    equal(sorted(name for name in os.listdir(backing) if name.startswith("new")),
          sorted(f"new{number}" for number in range(count) if number % len(ASKERS) == 3), "what was made")
    for point in (hung, rig.mnt):
        rig.umount(point)
    server.stop()
    rig.umount(middle)
