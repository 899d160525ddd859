"""Processes and mounts that outlive a scenario, found by a mark and ended one by one.

Every process of a scenario, daemons included, inherits the variable MARK in its environment. The mounts are those below
the scenario's directory. Processes and mounts of other programs are never touched.
"""

import os
import signal
import subprocess
import time

MARK = "DAFS_MOUNT_TEST"
SYMBOLIZER = "llvm-symbolizer"  # 15 bytes, as many as the kernel shows of a name


def marked(mark):
    """Returns {pid: command line} of the living processes that carry `mark`, except this one.

    Reading a command line blocks if its process is stuck in a page fault, so teardown must not use this.
    """
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rsplit(b")", 1)[1].split()  # from the state, field 3 of proc(5), on
            with open(f"/proc/{name}/environ", "rb") as environ:
                if wanted not in environ.read().split(b"\0") or fields[0] in (b"Z", b"X"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as cmdline:
                command = cmdline.read().replace(b"\0", b" ").decode(errors="replace").strip()
            if command:  # otherwise its memory is gone, because it is ending
                found[int(name)] = command
        except OSError:
            continue  # it ended meanwhile
    return found


def stopped(pid):
    """Whether every thread of a process has stopped after SIGSTOP."""
    states = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", "rb") as stat:
            states.add(stat.read().rsplit(b")", 1)[1].split()[0])
    return states == {b"T"}


def descendants():
    """Returns {pid: name} of the living processes below this one, which adopts its orphans. Never waits."""
    names, children = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    head, tail = stat.read().rsplit(b")", 1)
            except OSError:
                continue  # it ended meanwhile
            state, parent = tail.split()[:2]
            if state not in (b"Z", b"X"):
                names[int(entry)] = head.split(b"(", 1)[1].decode(errors="replace")
            children.setdefault(int(parent), []).append(int(entry))
    found, todo = {}, [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), ()):
            todo.append(pid)
            if pid in names:
                found[pid] = names[pid]
    return found


def unescape(field):
    """A path as /proc/self/mountinfo writes it, without its octal escapes."""
    return field.encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")


def mounts_below(directory):
    """Returns [(mount point, device number, type, options)] below `directory`, the last mounted first."""
    found = []
    prefix = os.path.realpath(directory) + "/"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            left, right = line.split(" - ", 1)
            fields = left.split()
            point = unescape(fields[4])
            if (point + "/").startswith(prefix):
                kind, _source, super_options = right.split(" ", 2)
                found.append((point, fields[2], kind, fields[5] + "," + super_options.strip()))
    return found[::-1]


def wait_until(condition, seconds, interval=0.02):
    """Polls `condition` until it is true; returns whether it became so within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


def reap():
    """Collects orphans that were handed to this process (it is a child subreaper)."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end(pids, patience=5):
    """Ends processes by their ids: SIGTERM, then SIGKILL for those still running after `patience` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a process that is stopped does not see SIGTERM
            except ProcessLookupError:
                pass
        if wait_until(lambda: not any(alive(pid) for pid in pids), patience):
            return True
    return False


def alive(pid):
    """Whether `pid` still runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def abort_fuse(device):
    """Frees processes that wait for a FUSE mount without a daemon; `device` is "major:minor"."""
    try:
        with open(f"/sys/fs/fuse/connections/{device.split(':')[1]}/abort", "w", encoding="ascii") as control:
            control.write("1")
    except OSError:
        pass  # fusectl is not mounted; killing the daemon does the same


def _unmount_below(directory):
    """Aborts and unmounts everything below `directory`; returns one line for each mount."""
    left = []
    for point, device, kind, _ in mounts_below(directory):
        left.append(f"left mounted: {point} ({kind})")
        if kind.startswith("fuse"):
            abort_fuse(device)
        try:
            subprocess.run(["umount", "-l", point], check=False, timeout=30, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            left.append(f"umount -l {point} hangs")
    return left


def sweep(directory):
    """Unmounts and kills everything left of a scenario; returns one line for each thing found."""
    left = _unmount_below(directory)  # first: processes that wait for a mount can then be killed
    # A sanitizer's symbolizer ends by itself shortly after its program.
    wait_until(lambda: SYMBOLIZER not in descendants().values(), 5)
    remaining = descendants()
    left += [f"left running: {pid} {name}" for pid, name in remaining.items()]
    if remaining and not end(remaining):
        left.append("could not be killed: " + " ".join(str(pid) for pid in remaining if alive(pid)))
    left += _unmount_below(directory)  # a process may have mounted until it ended
    reap()
    return left


def fork_all(functions):
    """Runs each function in a process of its own, all at once; fails unless all return."""
    children = []
    for function in functions:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                function()
                status = 0
            except BaseException as error:  # pylint: disable=broad-except
                print(f"{type(error).__name__}: {error}", flush=True)
            finally:
                os._exit(status)
        children.append(pid)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    if any(statuses):
        raise ChildProcessError(f"processes ended with statuses {statuses}, see scenario.log")
