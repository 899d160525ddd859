"""Appends from many processes and two mounts: whole, in order, at the end."""

import errno
import fcntl
import mmap
import os
import random
import subprocess

import pytest

import processes
from rig import check, equal, errno_of, scenario

from scenarios.files.users import NOBODY, as_user

PAGE = 4096



def record(writer, number, most=4096):
    """A record of 1 to `most` bytes that names its writer and its length."""
    size = random.Random(writer * 1_000_003 + number).randint(1, most)
    head = f"<{writer}:{number}:{size}>".encode()
    return head + bytes([97 + writer]) * max(size - len(head), 0)


def check_records(data, writers, each, most=4096):
    """Checks that `data` has every record of every writer once, whole, and in the writer's order. `each`: the number of
    records, of all writers or of each."""
    place, following = 0, [0] * writers
    while place < len(data):
        check(data[place:place + 1] == b"<", f"a torn record at {place}: {data[place:place + 40]!r}")
        writer = int(data[place + 1:data.index(b":", place)])
        wanted = record(writer, following[writer], most)
        check(data[place:place + len(wanted)] == wanted,
              f"record {following[writer]} of writer {writer} is not whole at {place}: {data[place:place + 40]!r}")
        place += len(wanted)
        following[writer] += 1
    equal(following, each if isinstance(each, list) else [each] * writers, "records of each writer")


@scenario(timeout=900, where="server", variants=True)
def appends(rig):
    """8 processes on 2 mounts append 4,000 records (100,000 in a full run): none lost, torn or out of order.
    Shows DAFS-6.5.3-03 (dafsd refuses an unstable append)."""
    each = 12_500 if rig.full else 500
    points = rig.mount_twice(arguments=("--stable=power",) if rig.full else ())
    log = points[0] / "log"
    log.touch()

    def writer(number):
        path = points[number % 2] / "log"
        flags = os.O_APPEND | (os.O_RDWR if number % 4 < 2 else os.O_WRONLY)
        descriptor = os.open(path, flags)
        total = 0
        for count in range(each):
            wanted = record(number, count)
            equal(os.write(descriptor, wanted), len(wanted), "bytes of an append")
            total += len(wanted)
            if count % 50 == 0:
                size = os.fstat(descriptor).st_size
                check(size >= total, f"size {size} after appends of {total} bytes")
                if flags & os.O_RDWR:
                    check(wanted in os.pread(descriptor, 1 << 20, max(size - (1 << 20), 0)), "an own append is not read")
        os.close(descriptor)

    processes.fork_all([lambda number=number: writer(number) for number in range(8)])
    data = (rig.export / "log").read_bytes()
    check_records(data, 8, each)
    for point in points:
        check((point / "log").read_bytes() == data, f"{point}: what is read is not what was appended")
        equal(os.stat(point / "log").st_size, len(data), "size")


@scenario(timeout=60, where="server", variants=True)
def append_sizes(rig):
    """The largest single append is whole; larger ones, F_SETFL, pwrite and O_SYNC appends land at the end."""
    points = rig.mount_twice()
    descriptors = [os.open(point / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY) for point in points]
    largest = (1 << 20) - PAGE
    expected = b""
    for number, size in enumerate([1, largest, 3, 5 << 20, 7]):
        data = bytes([65 + number]) * size
        equal(os.write(descriptors[number % 2], data), size, "bytes of an append")
        expected += data
    equal(os.pwrite(descriptors[0], b"pwrite", 0), 6, "pwrite")  # Linux appends, see open(2)
    expected += b"pwrite"
    for flag in (os.O_SYNC, os.O_DSYNC, os.O_DIRECT):
        synced = os.open(points[1] / "log", os.O_APPEND | os.O_WRONLY | flag)
        block = mmap.mmap(-1, PAGE)
        block.write(b"s" * PAGE)
        equal(os.write(synced, block), PAGE, "bytes of a synced append")
        os.close(synced)
        expected += b"s" * PAGE
    late = os.open(points[0] / "log", os.O_RDWR)
    os.pread(late, 100, 0)
    fcntl.fcntl(late, fcntl.F_SETFL, os.O_APPEND)
    for number in range(4):
        os.write((late, descriptors[1])[number % 2], b"%d" % number)
    expected += b"0123"
    equal(os.fstat(late).st_size, len(expected), "size")
    check(os.pread(late, 10, len(expected) - 10) == expected[-10:], "the end as the descriptor reads it")
    for descriptor in descriptors + [late]:
        os.fsync(descriptor)
        os.close(descriptor)
    check((rig.export / "log").read_bytes() == expected, "the file is not the appends one after the other")
    # A program on the server appends, then the mount: the mount must use the new end.
    with open(rig.export / "log", "ab") as local:
        local.write(b"local")
    with open(points[0] / "log", "ab", buffering=0) as file:
        file.write(b"remote")
    check((rig.export / "log").read_bytes() == expected + b"localremote", "append after a local one")


def write_through(path, flags):
    """Opens with `flags` and writes what the descriptor allows; fstat(2) and fsync(2) must work as well."""
    descriptor = os.open(path, flags, 0o666)
    try:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            os.write(descriptor, b"first,")
            os.write(descriptor, b"second;")
            os.fsync(descriptor)
        if flags & os.O_ACCMODE != os.O_WRONLY:
            os.pread(descriptor, 100, 0)
        os.fstat(descriptor)
    finally:
        os.close(descriptor)


@scenario(timeout=120, where="server")
def append_only(rig):
    """chattr +a and +i at the server: each call ends as on the local file system, and O_APPEND appends."""
    mount = rig.mount(rig.serve())
    for directory in (rig.export, rig.local):
        directory.chmod(0o777)
    calls = {f"open {access}{''.join(' ' + name for name in more)}":
             (lambda path, flags=flags: write_through(path, flags))
             for access in ("O_RDONLY", "O_WRONLY", "O_RDWR")
             for more in ((), ("O_APPEND",), ("O_TRUNC",), ("O_APPEND", "O_TRUNC"), ("O_APPEND", "O_CREAT"),
                          ("O_APPEND", "O_SYNC"), ("O_CREAT",))
             for flags in [sum(getattr(os, name) for name in (access, *more))]}
    calls.update({"truncate": lambda path: os.truncate(path, 2), "unlink": os.unlink,
                  "rename": lambda path: os.rename(path, path.with_name("renamed")),
                  "chmod": lambda path: os.chmod(path, 0o666), "utime": os.utime})
    marked = []
    try:
        for attribute in ("+a", "+i"):
            for user in (0, NOBODY):
                ends = []
                for real, seen in ((rig.local, rig.local), (rig.export, mount)):
                    name = f"{attribute}{user}"
                    (real / name).write_text("begin;")
                    (real / name).chmod(0o666)
                    if subprocess.run(["chattr", attribute, real / name], check=False).returncode != 0:
                        pytest.skip("the file system here has no append-only and immutable files")
                    marked.append(real / name)
                    found = {}
                    for what, call in calls.items():
                        found[what] = errno_of(call, seen / name) if user == 0 else \
                            as_user(user, lambda: call(seen / name))
                    ends.append((found, (real / name).read_bytes()))
                (local, local_bytes), (there, bytes_there) = ends
                for what in calls:
                    equal(errno.errorcode.get(there[what]), errno.errorcode.get(local[what]),
                          f"{attribute} as {user}, {what}")
                equal(bytes_there, local_bytes, f"{attribute} as {user}: the file")
                check((b"first,second;" in local_bytes) == (attribute == "+a"), f"{attribute}: {local_bytes}")
    finally:
        for path in marked:
            subprocess.run(["chattr", "-ai", path], check=True)
