"""The number of messages of each call, and the time at which data becomes stable."""

import errno
import json
import os
import re
import shutil
import subprocess
import time

import processes
from rig import SOURCE, check, equal, scenario

CALLS = 20  # of each kind, so that a stray renewal of a lease does not matter


def procedures(rig):
    """{procedure: calls} of the mount so far."""
    text = subprocess.run([rig.bin / "dafsctl", "status", "--json", rig.mnt], check=True, timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    return {name: each["calls"] for name, each in json.loads(text)["procedures"].items()}


def promised(heading):
    """The table of docs/benchmarks.md below `heading`: [(call, {procedure: messages})]."""
    found = []
    text = (SOURCE / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for line in text.split(f"\n{heading}\n", 1)[1].split("\n##", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"\d+", cells[2]):
            messages, trips = {}, 0
            for chain in filter(None, cells[1].split(", ")):
                times = int(repeated[1]) if (repeated := re.match(r"(\d+) x ", chain)) else 1
                trips += 0 if "later" in chain else times
                for name in re.findall(r"[A-Z][A-Z_]+", chain):
                    messages[name] = messages.get(name, 0) + times
            equal(trips, int(cells[2]), f"docs/benchmarks.md: round trips of {cells[0]}")
            found.append((cells[0], messages))
    return found


def make(path, data=b""):
    with open(path, "wb", buffering=0) as file:
        if data:
            file.write(data)


def doubt_atime(file):
    """Leaves the kernel with current attributes, except the time of access."""
    write_and_fstat(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(file, 4096, 0)
    os.close(os.open(f"/proc/self/fd/{file}", os.O_RDONLY))  # the kernel has looked up its name again


def open_and_fstat(file):
    """Opens the file without its name, which the kernel may have to look up again by now."""
    again = os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    os.fstat(again)
    os.close(again)


def open_twice(path):
    for _ in range(2):
        os.close(os.open(path, os.O_RDONLY))


def write_and_fstat(file):
    os.pwrite(file, b"z" * 4096, 0)
    equal(os.fstat(file).st_size, 8192, "the size after a write")


def prepare(root):
    """Makes files on the server, so that the mount knows none of them."""
    for n in range(CALLS):
        (root / f"there-{n}").write_bytes(b"x" * 8192)
        (root / f"link-{n}").symlink_to("there-0")
        (root / f"full-{n}").mkdir()
        (root / f"full-{n}" / "entry").touch()


def open_directory(path):
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))


# The calls of each row of the table. All preparations of a row run before its first call is counted.
def rows(root, descriptors):
    return {
        "stat of a file not seen before": (None, lambda n: os.stat(root / f"there-{n}")),
        "stat again": (None, lambda n: os.stat(root / f"there-{n}")),
        "lookup of a missing name": (None, lambda n: os.path.exists(root / f"missing-{n}")),
        "open": (None, lambda n: descriptors.append(os.open(root / f"there-{n}", os.O_RDWR))),
        "read of uncached data": (None, lambda n: os.pread(descriptors[n], 4096, 0)),
        "first write to a file created elsewhere": (None, lambda n: os.pwrite(descriptors[n], b"x" * 4096, 0)),
        "write": (None, lambda n: os.pwrite(descriptors[n], b"y" * 4096, 0)),
        "open, fstat and close": (lambda n: doubt_atime(descriptors[n]), lambda n: open_and_fstat(descriptors[n])),
        # The first write may ask again whether the file has capabilities.
        "write and fstat": (lambda n: write_and_fstat(descriptors[n]), lambda n: write_and_fstat(descriptors[n])),
        "fsync": (None, lambda n: os.fsync(descriptors[n])),
        "close": (None, lambda n: os.close(descriptors[n])),
        "open and close after a write": (None, lambda n: os.close(os.open(root / f"there-{n}", os.O_RDONLY))),
        "open and close, twice": (None, lambda n: open_twice(root / f"there-{n}")),
        "create and close": (None, lambda n: make(root / f"made-{n}")),
        "mkdir": (None, lambda n: (root / f"dir-{n}").mkdir()),
        "chmod": (None, lambda n: (root / f"made-{n}").chmod(0o600)),
        "rename": (None, lambda n: (root / f"made-{n}").rename(root / f"moved-{n}")),
        "unlink": (None, lambda n: (root / f"moved-{n}").unlink()),
        "rmdir": (None, lambda n: (root / f"dir-{n}").rmdir()),
        "readlink": (lambda n: os.lstat(root / f"link-{n}"), lambda n: os.readlink(root / f"link-{n}")),
        "list a directory": (lambda n: os.listdir(root / f"full-{n}"), lambda n: os.listdir(root / f"full-{n}")),
        # No program lists the directory after this open.
        "open a directory": (lambda n: open_directory(root / f"full-{n}"),
                             lambda n: open_directory(root / f"full-{n}")),
    }


def count(rig, table, work, settled=lambda: None):
    """Checks that each call of `table` sends its messages. `work`: {call: (preparation or None, function)}."""
    equal(sorted(work), sorted(call for call, _ in table), "the calls of the table")
    for call, messages in table:
        ready, once = work[call]
        for n in range(CALLS if ready else 0):
            ready(n)
        settled()
        time.sleep(0.05)  # requests that may be delayed have left
        before = procedures(rig)
        for n in range(CALLS):
            once(n)
        time.sleep(0.05)
        after = procedures(rig)
        each = {name: (after[name] - before.get(name, 0)) / CALLS for name in after}
        # Less than a quarter of a message per call is due to something else: a lease renewal, or an expired cache time.
        sent = {name: round(number) if abs(number - round(number)) < 0.25 else number
                for name, number in each.items() if number > 0.25}
        print(f"{call}: {sent}", flush=True)
        equal(sent, messages, f"messages of each {call}")


@scenario(timeout=60, where="server")
def round_trips(rig):
    """Each call sends the messages that docs/benchmarks.md states."""
    prepare(rig.export)
    rig.mount(rig.serve(), "acregmin=60")  # longer than the rows take, however slow the machine
    os.stat(rig.mnt)
    count(rig, promised("## Round trips of each call"), rows(rig.mnt, []), lambda: os.stat(rig.mnt))


def open_and_close(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags, 0o666))


@scenario(timeout=90, where="server")
def paths_uncached(rig):
    """With noac each call sends the messages that docs/benchmarks.md states, no more and no fewer."""
    directory = rig.export / "directory"
    directory.mkdir()
    for n in range(CALLS):
        (directory / f"file-{n}").touch()
    directory = rig.mnt / "directory"
    rig.mount(rig.serve(), "noac,lookupcache=none")
    count(rig, promised("### With `noac`"), {
        "stat": (None, lambda n: os.stat(directory / f"file-{n}")),
        "lookup of a missing name": (None, lambda n: os.path.exists(directory / f"missing-{n}")),
        "open and close": (None, lambda n: open_and_close(directory / f"file-{n}")),
        "create and close": (None, lambda n: open_and_close(directory / f"made-{n}", os.O_CREAT | os.O_EXCL)),
        "rename": (None, lambda n: os.rename(directory / f"made-{n}", directory / f"moved-{n}")),
        "unlink": (None, lambda n: os.unlink(directory / f"moved-{n}")),
    })


def commits(rig):
    return procedures(rig).get("COMMIT", 0)


@scenario(timeout=60, where="server")
def close_without_commit(rig):
    """close(2) does not wait for the disk; the data is committed 5 s later, or at umount; fsync commits at once."""
    server = rig.serve()
    rig.mount(server)
    for n in range(30):
        make(rig.mnt / f"file-{n}", b"data")
    start = time.monotonic()
    equal(commits(rig), 0, "COMMITs right after the close")
    make(rig.mnt / "gone", b"data")
    (rig.mnt / "gone").unlink()
    with open(rig.mnt / "synced", "wb", buffering=0) as file:
        file.write(b"data")
        os.fsync(file.fileno())
    equal(commits(rig), 1, "COMMITs after one fsync")
    check(processes.wait_until(lambda: commits(rig) >= 31, 8 * rig.slowness), "not committed after 8 s")
    check(time.monotonic() - start > 4, f"committed after {time.monotonic() - start:.1f} s already")
    rig.umount()
    rig.mount(server, "sync_on_close")
    before = commits(rig)
    make(rig.mnt / "file-0", b"other data")
    equal(commits(rig), before + 1, "COMMITs after a close with sync_on_close")


def acls_asked(rig, name):
    """Returns the number of requests for the ACL of a file that has none."""
    before = procedures(rig).get("OPENATTR", 0)
    try:
        os.getxattr(rig.mnt / name, "system.posix_acl_access")
    except OSError as error:
        equal(error.errno, errno.ENODATA, f"the ACL of {name}")
    return procedures(rig).get("OPENATTR", 0) - before


def ls(directory):
    """The names that ls -l marks as having an ACL."""
    lines = subprocess.run(["ls", "-l", str(directory)], check=True, timeout=60, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True).stdout.splitlines()[1:]
    return {line.split()[-1] for line in lines if line.split()[0].endswith("+")}


@scenario(timeout=120, where="server")
def listing(rig):
    """ls -l fetches ACLs with the listing, if programs do so; without cache times, of each file."""
    rig.need("setfacl")
    many = 400
    for n in range(many):
        (rig.export / f"file-{n}").write_bytes(b"x")
    server = rig.serve()
    other = rig.export / "other"
    other.mkdir()
    for n in range(2):
        (other / f"file-{n}").touch()
    few = rig.export / "few"
    few.mkdir()
    (few / "file").touch()
    rig.mount(server)
    for _ in range(3):  # until the mount expects that no program requests ACLs
        list(os.scandir(rig.mnt / "few"))
    for n, requests in enumerate((1, 0)):  # listed without ACLs, and with them after a request
        list(os.scandir(rig.mnt / "other"))
        equal(acls_asked(rig, f"other/file-{n}"), requests, f"requests after listing {n}")
    rig.umount()
    shutil.rmtree(other)
    shutil.rmtree(few)
    rig.mount(server, "noac")
    ls(rig.mnt)
    asked = procedures(rig)["OPENATTR"]
    check(many <= asked <= many * 1.05, f"{asked} questions about {many} files without cache times")
    rig.umount()
    rig.mount(server)
    equal(ls(rig.mnt), set(), "files with an ACL")
    asked = procedures(rig).get("OPENATTR", 0)
    check(asked <= 1, f"{asked} questions about files whose ACLs came with the listing")
    (rig.export / "dir").mkdir()
    for arguments in (["-m", "u:1234:r", "file-1"], ["-m", "m::r", "file-2"], ["-m", "g::-,m::-", "file-3"],
                      ["-d", "-m", "u:1234:r", "dir"]):
        subprocess.run(["setfacl", *arguments], check=True, cwd=rig.export)
    rig.umount()
    rig.mount(server)
    equal(ls(rig.mnt), {"dir", "file-1", "file-2", "file-3"}, "files with an ACL")
    equal(ls(rig.export), {"dir", "file-1", "file-2", "file-3"}, "files with an ACL on the server")
    asked = procedures(rig)["OPENATTR"]
    check(4 <= asked <= 4 * 4, f"{asked} questions about four files with an ACL")
