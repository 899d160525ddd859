"""open(2) with every flag on every type, opening again through /proc, execution."""

import errno
import os
import shutil
import subprocess

from .subject import TYPES, WHO, become

ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
FLAGS = {"none": 0, "creat": os.O_CREAT, "excl": os.O_CREAT | os.O_EXCL, "trunc": os.O_TRUNC,
         "creat-trunc": os.O_CREAT | os.O_TRUNC, "append": os.O_APPEND, "directory": os.O_DIRECTORY,
         "nofollow": os.O_NOFOLLOW, "creat-nofollow": os.O_CREAT | os.O_NOFOLLOW, "path": os.O_PATH,
         "path-nofollow": os.O_PATH | os.O_NOFOLLOW, "path-directory": os.O_PATH | os.O_DIRECTORY,
         "creat-directory": os.O_CREAT | os.O_DIRECTORY, "noatime": os.O_NOATIME, "sync": os.O_SYNC,
         "excl-trunc": os.O_CREAT | os.O_EXCL | os.O_TRUNC, "cloexec": os.O_CLOEXEC}


def flags(access, word):
    def case(t):
        os.chmod(".", 0o777)
        for mode in (0o644, 0o666, 0o000):
            for kind in TYPES + ("none",):
                if kind in ("char", "block"):
                    continue  # a device's answer does not depend on the file system
                path = f"{kind}{mode:o}"
                t.make(kind, path, "owner", mode)
                for who in ("root", "owner", "other"):
                    t.do(who, "open", path, ACCESS[access] | FLAGS[word] | os.O_NONBLOCK, 0o640, watch=(path, "."))
                    t.show(path, f"{path}.target")
                    if kind == "none" and os.path.lexists(path):
                        os.unlink(path)
                if kind == "dangling" and os.path.lexists("nowhere"):
                    t.show("nowhere")
                    os.unlink("nowhere")

    return case


def new_file(t):
    """A new file may be written whatever its mode; the mode counts from the next open."""
    os.chmod(".", 0o777)
    for who in ("owner", "other", "root"):
        for mode in (0o000, 0o400, 0o200, 0o444, 0o7777):
            path = f"{who}{mode:o}"
            become(who)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL, mode)
            t.note(path, (t.attempt(os.write, descriptor, b"abc"), t.attempt(os.pread, descriptor, 3, 0),
                          t.attempt(os.ftruncate, descriptor, 2)))
            os.close(descriptor)
            become("root")
            t.show(path)
            for flag in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT):
                t.do(who, "open", path, flag)


def again(t):
    """Open files opened again through /proc/self/fd: unchanged, renamed, removed, by a path descriptor."""
    os.chmod(".", 0o777)
    t.make("file", "f", "owner", 0o600)
    t.do("root", "write", "f", b"content")
    for fate in ("there", "renamed", "removed"):
        for how in (os.O_RDONLY, os.O_RDWR, os.O_PATH):
            name = f"{fate}{how}"
            shutil.copyfile("f", name)
            os.chmod(name, 0o600)
            os.chown(name, 5001, 5001)
            descriptor = t.hold(os.open(name, how))
            if fate == "renamed":
                os.rename(name, name + "2")
            elif fate == "removed":
                if how == os.O_PATH:
                    continue  # see DIFFERENCES: a path descriptor does not keep a file alive
                os.unlink(name)
            for who in ("root", "owner", "other"):
                for flag in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
                    outcome = t.do(who, "open", f"/proc/self/fd/{descriptor}", flag)
                    t.diary[-1] = f"{name} {who} {flag}: {outcome}"
                t.diary.append(f"{name} {who} " + t.attempt("read", f"/proc/self/fd/{descriptor}"))
                t.diary.append(f"{name} {who} " + t.attempt("chmod", f"/proc/self/fd/{descriptor}", 0o640))


def run(path, who):
    """Executes `path` as `who`; returns its status, or the errno of execve."""
    uid, gid, groups = WHO[who]
    try:
        return subprocess.run([os.path.abspath(path)], user=uid, group=gid, extra_groups=groups, check=False, timeout=20,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
    except OSError as error:
        return errno.errorcode[error.errno]


def execution(mode):
    """Files may be executed without being readable."""

    def case(t):
        shutil.copyfile("/bin/true", "x")
        os.chown("x", 5001, 5001)
        os.chmod("x", mode)
        for who in ("root", "owner", "member", "other"):
            t.note(f"{who} runs", run("x", who))
            t.do(who, "read", "/dev/null")
            t.do(who, "open", "x", os.O_RDONLY)
            for bits in (1, 4, 5):
                t.do(who, "access", "x", bits)

    return case


def busy_text(t):
    """A running program cannot be written, and a file open for writing cannot be run."""
    shutil.copyfile("/bin/sleep", "x")
    os.chmod("x", 0o755)
    with subprocess.Popen([os.path.abspath("x"), "30"]) as child:
        t.note("text", t.attempt(os.stat, f"/proc/{child.pid}/exe") != "ENOENT")
        for words in (("open", "x", os.O_WRONLY), ("open", "x", os.O_RDWR), ("open", "x", os.O_RDONLY | os.O_TRUNC),
                      ("truncate", "x", 10), ("write", "x", b"y"), ("open", "x", os.O_RDONLY), ("chmod", "x", 0o755),
                      ("rename", "x", "y"), ("rename", "y", "x"), ("unlink", "x")):
            t.do("root", *words)
        child.kill()
    shutil.copyfile("/bin/true", "w")
    os.chmod("w", 0o755)
    t.note("before", run("w", "owner"))
    descriptor = os.open("w", os.O_WRONLY)
    t.note("while open for writing", run("w", "owner"))
    os.close(descriptor)
    t.note("after", run("w", "owner"))


def access_times(t):
    """Reading moves the time of access, writing does not."""
    def moved(path):
        return os.lstat(path).st_atime_ns != 1_000_000_000 * 10**9

    for what, call in (("read", lambda: t.attempt("read", "f")), ("write", lambda: t.attempt("write", "f", b"x")),
                       ("truncate", lambda: t.attempt("truncate", "f", 3)),
                       ("chmod", lambda: t.attempt("chmod", "f", 0o600)), ("stat", lambda: os.stat("f"))):
        with open("f", "wb") as file:
            file.write(b"data" * 100)
        os.utime("f", (1_000_000_000, 1_000_000_000))
        call()
        t.note(what, moved("f"))
    os.mkdir("d")
    os.utime("d", (1_000_000_000, 1_000_000_000))
    os.listdir("d")
    t.note("listing", moved("d"))
    os.symlink("f", "l")
    os.utime("l", (1_000_000_000, 1_000_000_000), follow_symlinks=False)
    os.readlink("l")
    t.note("readlink", moved("l"))


def appended(t):
    """Times and sizes as data comes."""
    t.make("file", "f", "owner", 0o666)
    for who in ("root", "owner", "other"):
        for words in (("write", "f", b"abc"), ("write", "f", b"abc", os.O_WRONLY | os.O_APPEND), ("write", "f", b""),
                      ("read", "f"), ("write", "f", b"x" * 70_000), ("open", "f", os.O_RDWR | os.O_TRUNC)):
            t.do(who, *words, watch=("f",))


def cases():
    for access in ACCESS:
        for word in FLAGS:
            yield f"open/{access}/{word}", flags(access, word)
    yield "open/new", new_file
    yield "open/again", again
    for mode in (0o755, 0o711, 0o111, 0o100, 0o010, 0o001, 0o644, 0o000, 0o744, 0o555, 0o101):
        yield f"exec/{mode:04o}", execution(mode)
    yield "exec/busy", busy_text
    yield "open/times", appended
    yield "open/access-times", access_times
