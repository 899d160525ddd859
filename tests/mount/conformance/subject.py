"""One of the two directories that are compared, and the diary of the calls made in it."""

import contextlib
import errno
import os
import shutil
import stat
import time

from .calls import AT_SYMLINK_NOFOLLOW, CALLS, utimens

# uid, gid, supplementary groups. A file of the owner has group 5001 unless a case says otherwise.
WHO = {
    "root": (0, 0, [0]),
    "owner": (5001, 5001, []),
    "insider": (5001, 5001, [5003, 5005]),  # the owner, in another group too
    "member": (5002, 5002, [5001]),
    "other": (5004, 5004, []),
    "nobody": (65534, 65534, []),
}
OLD = 1_000_000_000  # a time long ago, so that any later one shows
TYPES = ("file", "dir", "fifo", "socket", "char", "block", "link", "dangling", "dirlink", "loop")


def become(who):
    """Takes the rights of `who` within this process, as a server of many users does."""
    uid, gid, groups = WHO[who]
    os.seteuid(0)
    os.setegid(0)
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)


class Subject:
    """Cases work in the current directory, one new directory each, as root. `do` makes one call as another user."""

    def __init__(self, root, pause):
        self.root = root
        self.pause = pause  # seconds in which the clock of ctime surely ticks
        self.diary = []
        self.kept = []  # descriptors to be closed at the end of the case

    def begin(self, name):
        os.chdir(self.root)
        os.mkdir(name, 0o755)
        os.chdir(name)
        os.umask(0)
        self.diary = []

    def end(self, name):
        become("root")
        for descriptor in self.kept:
            os.close(descriptor)
        self.kept = []
        os.chdir(self.root)
        shutil.rmtree(name)

    def rest(self):
        """Waits until the clock of ctime has ticked."""
        if self.pause:
            time.sleep(self.pause)

    def note(self, what, value):
        self.diary.append(f"{what}: {value}")

    def attempt(self, call, *arguments):
        """Makes a call; returns the name of its errno, or its result."""
        try:
            value = (CALLS[call] if isinstance(call, str) else call)(*arguments)
            return "ok" if value is None else repr(value)
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error.errno))

    def do(self, who, call, *arguments, watch=()):
        """Makes a call as `who` and notes its outcome, and the state of the paths in `watch` after it."""
        for path in watch:
            self.age(path)
        befores = [self.look(path) for path in watch]  # not before: two of them may be one file
        if watch:
            self.rest()
        if who != "root":
            become(who)
        try:
            outcome = self.attempt(call, *arguments)
        finally:
            if who != "root":
                become("root")
        name = call if isinstance(call, str) else call.__name__
        words = " ".join(shorten(argument) for argument in arguments)
        self.note(f"{who}: {name} {words}", outcome)
        for path, before in zip(watch, befores):
            self.note(f"{who}: {name} {words} -> {shorten(path)}", self.compare(before, self.look(path)))
        return outcome

    def age(self, path):
        """Sets the times of `path`, if there is one, to long ago."""
        with contextlib.suppress(OSError):
            utimens(path, (OLD, 0), (OLD, 0), AT_SYMLINK_NOFOLLOW)

    def look(self, path):
        """lstat of `path`, None if there is nothing."""
        try:
            return os.lstat(path)
        except OSError:
            return None

    def compare(self, before, after):
        if after is None:
            return "nothing"
        kind = stat.S_IFMT(after.st_mode)
        text = f"{stat.filemode(after.st_mode)} {stat.S_IMODE(after.st_mode):04o} links={after.st_nlink}" \
               f" {after.st_uid}:{after.st_gid}"
        if kind in (stat.S_IFREG, stat.S_IFLNK):
            text += f" size={after.st_size}"
        if kind in (stat.S_IFCHR, stat.S_IFBLK):
            text += f" device={os.major(after.st_rdev)},{os.minor(after.st_rdev)}"
        if before is not None and before.st_ino == after.st_ino:
            text += " moved=" + "".join(letter for letter, moved in (
                ("m", before.st_mtime_ns != after.st_mtime_ns), ("c", before.st_ctime_ns != after.st_ctime_ns)) if moved)
        return text

    def show(self, *paths):
        for path in paths:
            self.note(shorten(path), self.compare(None, self.look(path)))

    def make(self, kind, path, who="owner", mode=None):
        """Something of the type `kind`, of `who`."""
        uid, gid, _ = WHO[who]
        if kind == "dir":
            os.mkdir(path)
        elif kind == "full":
            os.mkdir(path)
            os.mkdir(f"{path}/inner")
            os.lchown(f"{path}/inner", uid, gid)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            os.mknod(path, stat.S_IFSOCK | 0o644)
        elif kind in ("char", "block"):
            os.mknod(path, (stat.S_IFCHR if kind == "char" else stat.S_IFBLK) | 0o644, os.makedev(1, 3))
        elif kind == "link":
            with open(f"{path}.target", "x", encoding="ascii"):
                os.symlink(f"{os.path.basename(path)}.target", path)
            os.chown(f"{path}.target", uid, gid)
        elif kind == "dirlink":
            os.mkdir(f"{path}.target")
            os.symlink(f"{os.path.basename(path)}.target", path)
        elif kind == "dangling":
            os.symlink("nowhere", path)
        elif kind == "loop":
            os.symlink(os.path.basename(path), path)
        elif kind == "file":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644))
        if kind != "none":
            os.lchown(path, uid, gid)
            if mode is not None and "link" not in kind and kind not in ("dangling", "loop"):
                os.chmod(path, mode)

    def hold(self, descriptor):
        self.kept.append(descriptor)
        return descriptor


def shorten(argument):
    text = oct(argument) if isinstance(argument, int) and argument > 7 else str(argument)
    return text if len(text) < 50 else f"{text[:20]}...{text[-8:]}({len(text)})"
