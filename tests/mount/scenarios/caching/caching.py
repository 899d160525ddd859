"""The promises of mount.dafs(8) about caches, one by one, with two mounts of one export."""

import errno
import fcntl
import mmap
import os
import struct
import time

from rig import acting_as, check, equal, errno_of, scenario


# One second of validity, and one more for a loaded machine.
SHORT = "actimeo=1"
LATEST = 2.0

OTHER = 12345  # a user without rights


def write(path, data, flags=os.O_CREAT | os.O_WRONLY | os.O_TRUNC):
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def open_and_close(path, flags, mode=0o644):
    os.close(os.open(path, flags, mode))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def seen_within(seconds, what, look):
    """`look` must become true without further calls, at most `seconds` after the change."""
    start = time.monotonic()
    while not look():
        check(time.monotonic() - start < seconds, f"{what}: not seen within {seconds} s")
        time.sleep(0.02)
    print(f"{what}: seen after {time.monotonic() - start:.3f} s", flush=True)


def two_mounts(rig, options, export_options=""):
    server = rig.serve([f"/data={rig.export},rw,no_root_squash{export_options}"])
    other = rig.base / "other"
    other.mkdir(exist_ok=True)
    return rig.mount(server, options), rig.mount(server, options, point=other)


@scenario(timeout=60, where="server")
def cache_locks(rig):
    """A program that takes a lock reads data written elsewhere under the lock, even if size and time are unchanged."""
    here, there = two_mounts(rig, "actimeo=60")
    size = 200_000
    for lock in (fcntl.flock, fcntl.lockf):
        write(here / "shared", b"0" * size)
        ends = [os.open(place / "shared", os.O_RDWR) for place in (here, there)]
        for turn in range(6):
            reader, writer = ends if turn % 2 else reversed(ends)
            lock(reader, fcntl.LOCK_EX)
            os.pread(reader, size, 0)  # fills this mount's cache
            stamp = os.fstat(reader).st_mtime_ns
            lock(reader, fcntl.LOCK_UN)
            lock(writer, fcntl.LOCK_EX)
            data = bytes([65 + turn]) * size
            os.pwrite(writer, data, 0)
            os.utime(writer, ns=(stamp, stamp))
            lock(writer, fcntl.LOCK_UN)
            lock(reader, fcntl.LOCK_SH if lock is fcntl.flock or turn % 2 else fcntl.LOCK_EX)
            check(os.pread(reader, size, 0) == data, f"{lock.__name__}, turn {turn}: old data under the lock")
            lock(reader, fcntl.LOCK_UN)
        for descriptor in ends:
            os.close(descriptor)


@scenario(timeout=60, where="server")
def cache_written(rig):
    """Data of an open file is seen on the same mount at once, on the other mount after fsync, close or unlock."""
    for options in ("actimeo=60", "actimeo=60,nowrite_behind"):
        here, there = two_mounts(rig, options)
        with open(here / "open", "wb", buffering=0) as file:
            expected = b""
            for turn in range(60):
                data = bytes([65 + turn % 26]) * (1 + 1000 * (turn % 7))
                file.write(data)
                expected += data
                if turn % 3 == 0:
                    equal((os.stat(here / "open").st_size, read(here / "open")), (len(expected), expected), "here")
                how = turn % 4
                if how == 0:
                    os.fsync(file.fileno())
                elif how == 1:
                    os.close(os.dup(file.fileno()))
                elif how == 2:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    file.write(b"+")
                    expected += b"+"
                    fcntl.lockf(file, fcntl.LOCK_UN)
                elif "nowrite" not in options:
                    continue
                check(read(there / "open") == expected, f"{options}, turn {turn}: read there")
        for point in (here, there):
            rig.umount(point)


@scenario(timeout=90, where="server")
def cache_opened_again(rig):
    """A file that is opened again soon has its current content and permissions, and none of its earlier locks."""
    for options in ("actimeo=60", "noac"):
        here, there = two_mounts(rig, options)
        file, behind = here / "file", rig.export / "file"
        behind.write_bytes(b"first")
        behind.chmod(0o644)
        for turn in range(8):
            data = bytes([65 + turn]) * 5
            equal(read(file), read(there / "file"), f"{options}, turn {turn}: before")
            if turn % 2 == 0:
                write(there / "file", data)
            else:
                behind.write_bytes(data)
            equal(read(file), data, f"{options}, turn {turn}: written elsewhere since")
        with acting_as(OTHER):
            open_and_close(file, os.O_RDONLY)
        for place in (behind, there / "file"):
            place.chmod(0o600)
            read(file)
            with acting_as(OTHER):
                equal(errno_of(os.open, file, os.O_RDONLY), errno.EACCES, f"{options}: open of another user's file")
            place.chmod(0o644)
            time.sleep(0.01)  # another tick of an old kernel's clock
            if options == "noac":  # otherwise the kernel remembers which users are refused
                with acting_as(OTHER):
                    open_and_close(file, os.O_RDONLY)
        read(file)
        (rig.export / "new").write_bytes(b"another file")
        os.rename(rig.export / "new", behind)
        equal(read(file), b"another file", f"{options}: replaced on the server")
        read(file)
        behind.unlink()
        equal(errno_of(os.open, file, os.O_RDONLY), errno.ENOENT, f"{options}: removed on the server")
        # A lock ends with its descriptor, and the next does not have it.
        write(file, b"locked")
        for _ in range(3):
            locked = os.open(file, os.O_RDONLY)
            fcntl.flock(locked, fcntl.LOCK_EX)
            os.close(locked)
            again = os.open(file, os.O_RDONLY)
            other = os.open(there / "file", os.O_RDONLY)
            fcntl.flock(other, fcntl.LOCK_EX)  # the kernel does not wait for the end of the first
            os.close(other)
            os.close(again)
        for point in (here, there):
            rig.umount(point)


@scenario(timeout=60, where="server")
def cache_replaced(rig):
    """After another machine replaces a file, its name opens the new file even if the old one is open here."""
    for options in ("actimeo=60", "actimeo=60,nconnect=4", "noac"):
        here, there = two_mounts(rig, options)
        file, behind = here / "file", rig.export / "file"
        for turn in range(10):
            old, data = b"old %d" % turn, b"new %d" % turn
            behind.write_bytes(old)
            held = os.open(file, os.O_RDONLY)
            equal((os.pread(held, 100, 0), read(file)), (old, old), f"{options}: before")
            if turn % 2 == 0:
                write(there / "new", data)
                os.rename(there / "new", there / "file")
            else:
                (rig.export / "new").write_bytes(data)
                os.rename(rig.export / "new", behind)
            equal(read(file), data, f"{options}, turn {turn}: replaced")
            equal(os.pread(held, 100, 0), old, f"{options}, turn {turn}: the old one")
            equal(read(f"/proc/self/fd/{held}"), old, f"{options}, turn {turn}: the old one, opened again")
            os.close(held)
            # The old file lives on under another name, and no program has it open.
            place = (there, rig.export)[turn % 2]
            os.rename(place / "file", place / "backup")
            (place / "file").write_bytes(old)
            equal((read(file), read(here / "backup")), (old, data), f"{options}, turn {turn}: replaced, with a backup")
            (place / "backup").unlink()
            (place / "new").write_bytes(data)
            os.link(place / "file", place / "backup")
            os.rename(place / "new", place / "file")
            equal((read(file), read(here / "backup")), (data, old), f"{options}, turn {turn}: replaced, with a link")
            os.rename(place / "file", place / "moved")
            equal(errno_of(os.open, file, os.O_RDWR), errno.ENOENT, f"{options}, turn {turn}: moved away")
            equal(read(here / "moved"), data, f"{options}, turn {turn}: where it is now")
            for name in ("moved", "backup"):
                (place / name).unlink()
        for point in (here, there):
            rig.umount(point)


@scenario(timeout=60, where="server")
def cache_replaced_looked_at(rig):
    """The same if the old file lives on and was looked up, written, renamed or linked here in between."""
    for options in ("actimeo=60", "actimeo=60,nconnect=4"):
        here, there = two_mounts(rig, options)
        file, other = here / "file", here / "other"

        def replaced(how, place, then):
            """Replaces `file`, which lives on as `other`, and runs `then` before `file` is opened again."""
            for name in ("file", "other", "new", "third", "kept"):
                (there / name).unlink(missing_ok=True)
                os.path.exists(here / name)
            write(there / "file", b"old")
            equal(read(file), b"old", "before")
            write(place / "new", b"new")
            if how == "rename":
                os.rename(place / "file", place / "other")
            else:
                os.link(place / "file", place / "other")
            os.rename(place / "new", place / "file")
            then()
            equal(read(file), b"new", f"{options}, {how}, {then.__name__}")
            equal(read(other)[:3], b"old", f"{options}, {how}, {then.__name__}: the old file")
            with open(file, "ab") as stream:
                stream.write(b"er")
            equal((read(rig.export / "file"), read(rig.export / "other")[:3]), (b"newer", b"old"), "at the server")

        def looked_at_by_its_new_name():
            os.stat(other)

        def opened_by_its_new_name():
            read(other)

        def written_by_its_new_name():
            with open(other, "ab") as stream:
                stream.write(b"-")
            os.stat(other)

        def written_and_opened():
            with open(other, "ab") as stream:
                stream.write(b"-")
            read(other)

        def linked():
            os.link(other, here / "third")
            os.stat(other)

        def renamed_to_and_fro():
            os.rename(other, here / "third")
            os.rename(here / "third", other)
            read(other)

        def listed():
            for entry in os.scandir(here):
                entry.stat()

        behinds = [looked_at_by_its_new_name, opened_by_its_new_name, written_by_its_new_name, written_and_opened,
                   linked, renamed_to_and_fro, listed]
        for how in ("rename", "link"):
            for place in (there, rig.export):
                for behind in behinds:
                    replaced(how, place, behind)
        # fstat(2) on a descriptor reports the change, but nothing of the name.
        write(there / "file", b"old")
        (there / "kept").unlink(missing_ok=True)
        with open(file, "rb") as held:
            equal(held.read(), b"old", "before")
            write(there / "new", b"new")
            os.link(there / "file", there / "kept")
            os.rename(there / "new", there / "file")
            time.sleep(0.2)
            equal((os.fstat(held.fileno()).st_nlink, read(file)), (1, b"new"), f"{options}: after fstat")
            equal(read(f"/proc/self/fd/{held.fileno()}"), b"old", f"{options}: the old one by its descriptor")
            # The old file gets its name back, and loses it again.
            os.link(there / "kept", there / "again")
            os.rename(there / "again", there / "file")
            os.stat(file)
            os.fstat(held.fileno())
            equal(read(file), b"old", f"{options}: the old one again")
            write(there / "new", b"third")
            os.rename(there / "new", there / "file")
            os.fstat(held.fileno())
            equal(read(file), b"third", f"{options}: replaced again")
        for point in (here, there):
            rig.umount(point)


@scenario(timeout=90, where="server")
def cache_open(rig):
    """An open on one mount reads what a program wrote and closed on another, whatever the cache times."""
    here, there = two_mounts(rig, "actimeo=60")
    for size in (1, 4096, 100_000):
        for turn in range(3):
            data = bytes([65 + turn]) * size
            write(here / f"file{size}", data)
            equal(read(there / f"file{size}"), data, f"{size} bytes, turn {turn}, written here and read there")
            back = bytes([97 + turn]) * size
            write(there / f"file{size}", back, os.O_WRONLY)
            equal(read(here / f"file{size}"), back, f"{size} bytes, turn {turn}, written there and read here")
    # The size is the same, and the time too as far as the clock shows. Only the change attribute differs.
    write(here / "same", b"one")
    equal(read(there / "same"), b"one", "before")
    stamp = os.stat(there / "same").st_mtime_ns
    write(here / "same", b"two")
    os.utime(here / "same", ns=(stamp, stamp))
    equal(read(there / "same"), b"two", "after a change that put the old time back")


@scenario(timeout=60, where="server")
def cache_behind_setattr(rig):
    """A change of a file's mode or times on one mount does not hide the data that another mount wrote before, from a
    descriptor or a mapping that is open."""
    server = rig.serve([f"/data={rig.export},rw,no_root_squash"])
    other = rig.base / "other"
    other.mkdir()
    for options in ("", "nocallbacks,actimeo=60"):
        here, there = rig.mount(server, options), rig.mount(server, options, point=other)
        for number, change in enumerate((lambda path: os.chmod(path, 0o600), lambda path: os.utime(path, (1000, 2000)),
                                         lambda path: os.chown(path, OTHER, OTHER), lambda path: os.truncate(path, 5000))):
            path = here / f"file{number}"
            write(path, b"a" * 5000)
            descriptor = os.open(path, os.O_RDONLY)
            mapping = mmap.mmap(descriptor, 5000, prot=mmap.PROT_READ)
            equal((os.pread(descriptor, 1, 4500), mapping[4500:4501]), (b"a", b"a"), "before")
            write(there / path.name, b"b" * 5000, os.O_WRONLY)
            change(path)
            seen_within(LATEST, f"{options}: data before change {number}",
                        lambda: (os.pread(descriptor, 1, 4500), mapping[4500:4501]) == (b"b", b"b"))
            mapping.close()
            os.close(descriptor)
        rig.umount(here)
        rig.umount(there)


@scenario(timeout=90, where="server")
def cache_times(rig):
    """A chmod, a rename, an unlink and a new size made through another mount are seen after the promised time."""
    here, there = two_mounts(rig, SHORT)
    write(here / "file", b"12345")
    (here / "directory").mkdir()
    write(here / "directory" / "old", b"old")
    equal(os.stat(there / "file").st_size, 5, "the size before")
    equal(sorted(os.listdir(there / "directory")), ["old"], "the names before")
    os.stat(there / "directory" / "old")

    os.chmod(here / "file", 0o600)
    seen_within(LATEST, "chmod", lambda: os.stat(there / "file").st_mode & 0o777 == 0o600)
    write(here / "file", b"1234567")
    seen_within(LATEST, "size", lambda: os.stat(there / "file").st_size == 7)
    os.rename(here / "directory" / "old", here / "directory" / "new")
    seen_within(LATEST, "rename, the old name", lambda: not os.path.exists(there / "directory" / "old"))
    seen_within(LATEST, "rename, the new name", lambda: os.path.exists(there / "directory" / "new"))
    os.unlink(here / "directory" / "new")
    seen_within(LATEST, "unlink", lambda: not os.path.exists(there / "directory" / "new"))
    seen_within(LATEST, "listing", lambda: os.listdir(there / "directory") == [])

    # A file that is open is followed too: its cached pages are dropped when its attributes change.
    write(here / "followed", b"a" * 8192)
    with open(there / "followed", "rb", buffering=0) as reader:
        equal(os.pread(reader.fileno(), 4, 0), b"aaaa", "through a descriptor, before")
        write(here / "followed", b"b" * 8192, os.O_WRONLY)
        seen_within(LATEST, "content through a descriptor", lambda: os.pread(reader.fileno(), 4, 0) == b"bbbb")


@scenario(timeout=90, where="server")
def cache_none(rig):
    """With noac every call shows the current attributes; without lookup cache every name is current."""
    here, there = two_mounts(rig, "noac")
    write(here / "file", b"1")
    for turn in range(20):
        os.chmod(here / "file", 0o600 + turn % 8)
        equal(os.stat(there / "file").st_mode & 0o777, 0o600 + turn % 8, f"mode at turn {turn}")
        write(here / "file", b"x" * (turn + 1))
        equal(os.stat(there / "file").st_size, turn + 1, f"size at turn {turn}")
        os.rename(here / "file", here / "moved")
        check(not os.path.exists(there / "file"), f"turn {turn}: the old name is still there")
        os.rename(there / "moved", there / "file")
        check(os.path.exists(here / "file"), f"turn {turn}: the name given back is missing")
    # By descriptors and for directories, right after calls whose replies carry the same attributes.
    (here / "directory").mkdir()
    with open(there / "file", "rb", buffering=0) as file:
        links = os.stat(there / "directory").st_nlink
        for turn in range(200):
            os.access(there / "file", os.F_OK)
            os.truncate(here / "file", turn)
            equal(os.fstat(file.fileno()).st_size, turn, f"size by a descriptor at turn {turn}")
            os.access(there / "directory" / "missing", os.F_OK)
            (here / "directory" / f"{turn}").mkdir()
            equal(os.stat(there / "directory" / ".").st_nlink, links + turn + 1, f"links of a directory at turn {turn}")
        # Changes on the server itself show at once.
        links = os.stat(there).st_nlink
        for turn in range(200):
            os.access(there / "missing", os.F_OK)
            os.mkdir(rig.export / f"{turn}")
            equal(os.stat(there).st_nlink, links + turn + 1, f"links of the root at turn {turn}")
            os.access(there / "file", os.F_OK)
            os.truncate(rig.export / "file", turn)
            equal(os.fstat(file.fileno()).st_size, turn, f"size by a descriptor at turn {turn}, changed on the server")
    # Rights granted or removed there count at once, too.
    for turn in range(200):
        allowed = turn % 2 == 0
        with acting_as(OTHER):
            check(errno_of(os.open, there / "missing", os.O_RDONLY) != 0, "a missing file was opened")
        os.chmod(rig.export, 0o777 if allowed else 0o700)
        with acting_as(OTHER):
            error = errno_of(os.mkdir, there / f"made-{turn}")
        equal(error, 0 if allowed else errno.EACCES, f"the errno of mkdir at turn {turn}")
    os.chmod(rig.export / "file", 0o644)
    # An earlier permission check must neither admit a user without the right nor refuse a user with it.
    calls = {
        "open": lambda: open_and_close(there / "file", os.O_RDONLY),
        "opening the directory": lambda: open_and_close(there, os.O_RDONLY),
        "chdir": lambda: os.chdir(there),
        "stat": lambda: os.stat(there / "file"),
    }
    for turn in range(100):
        allowed = turn % 2 == 0
        for name, call in calls.items():
            with acting_as(OTHER):
                errno_of(open_and_close, there / "file", os.O_RDONLY)
            open_and_close(there / "file", os.O_RDONLY)  # by a user with the right
            os.chmod(rig.export, 0o755 if allowed else 0o700)
            with acting_as(OTHER):
                error = errno_of(call)
            equal(error, 0 if allowed else errno.EACCES, f"the errno of {name} at turn {turn}")
            os.chdir("/")
            os.chmod(rig.export, 0o700 if allowed else 0o755)
    os.chmod(rig.export, 0o755)
    # A default ACL set or removed on the server takes effect for the next file.
    entries = ((1, 6), (4, 6), (0x20, 6))  # ACL_USER_OBJ, ACL_GROUP_OBJ, ACL_OTHER
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, 0xffffffff) for tag, rights in entries)
    mask = os.umask(0o022)
    try:
        for turn in range(200):
            if turn % 2 == 0:
                os.setxattr(rig.export, "system.posix_acl_default", acl)
            else:
                os.removexattr(rig.export, "system.posix_acl_default")
            if turn % 5 == 0:  # requests the ACL, and creates nothing
                open_and_close(there / "file", os.O_CREAT | os.O_RDONLY)
            open_and_close(there / f"new-{turn}", os.O_CREAT | os.O_WRONLY, 0o666)
            equal(os.stat(rig.export / f"new-{turn}").st_mode & 0o777, 0o666 if turn % 2 == 0 else 0o644,
                  f"mode of a new file at turn {turn}")
    finally:
        os.umask(mask)


@scenario(timeout=90, where="server")
def cache_names(rig):
    """lookupcache: a name made elsewhere is seen at once by default; by `all` after the directory's time."""
    here, there = two_mounts(rig, "actimeo=60")
    check(not os.path.exists(there / "late"), "there before it was made")
    write(here / "late", b"")
    check(os.path.exists(there / "late"), "a name made elsewhere after a miss: lookupcache=pos remembers no misses")
    for point in (here, there):
        rig.umount(point)
    here = rig.mount(rig.servers[0], "actimeo=60,lookupcache=none", point=here)
    there = rig.mount(rig.servers[0], "actimeo=60,lookupcache=none", point=there)
    check(os.path.exists(there / "late"), "the name")
    os.unlink(here / "late")
    check(not os.path.exists(there / "late"), "lookupcache=none: an unlinked name is still there")
    for point in (here, there):
        rig.umount(point)
    here = rig.mount(rig.servers[0], SHORT + ",lookupcache=all", point=here)
    there = rig.mount(rig.servers[0], SHORT + ",lookupcache=all", point=there)
    check(not os.path.exists(there / "later"), "there before it was made")
    write(here / "later", b"")
    seen_within(LATEST, "lookupcache=all: a name made elsewhere", lambda: os.path.exists(there / "later"))
