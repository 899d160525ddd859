"""How many messages everyday programs cost under the server's promises. Counted, so a busy machine changes nothing."""

import subprocess
import tarfile
import time

from rig import check, note, scenario

from .speed import procedures

FILES, DIRECTORIES, MADE = 500, 20, 100
# On an export that only clients change. New names need no lookup, listings with all that ls -l shows none again.
MOST = {"untar": 3_250, "git init, add, commit": 5_900, "ls -lR": 0, "ls -lR again": 0, "git status": 40,
        "git status again": 30, "grep -r": 100, "grep -r again": 80, f"make of {MADE} files": 1_800, "make again": 5}
BY_THE_CLOCK = ("NULL", "COMMIT")  # sent later, whatever programs do meanwhile

GIT = ["git", "-c", "safe.directory=*", "-c", "user.name=n", "-c", "user.email=e", "-c", "gc.auto=0"]


def source_tree(rig):
    """Returns an archive of a tree of C files, of which make compiles some."""
    root = rig.local / "tree"
    for number in range(FILES):
        directory = root / f"part{number % DIRECTORIES}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file{number}.c").write_text(
            f'#include "../common.h"\n\nint function{number}(int argument) {{ return argument + NUMBER + {number}; }}\n')
    (root / "common.h").write_text("#define NUMBER 42\n")
    sources = " ".join(f"part{number % DIRECTORIES}/file{number}.o" for number in range(MADE))
    (root / "Makefile").write_text(f"all: {sources}\n%.o: %.c common.h\n\t$(CC) -O0 -c $< -o $@\n")
    archive = rig.local / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(root, "tree")
    return archive


class Counter:
    """Counts the messages of commands, and keeps them as a table."""

    def __init__(self, rig):
        self.rig = rig
        self.rows = {}

    def run(self, name, *command, directory="tree"):
        before = procedures(self.rig)
        self.rig.run(["sh", "-c", 'exec "$@" > "$0"', self.rig.local / "output", *command],
                     cwd=self.rig.mnt / directory)
        time.sleep(0.2)  # requests that may be delayed have left
        after = procedures(self.rig)
        each = {name: calls - before.get(name, 0) for name, calls in after.items()
                if calls > before.get(name, 0) and name not in BY_THE_CLOCK}
        self.rows[name] = sum(each.values())
        most = sorted(each.items(), key=lambda item: -item[1])[:6]
        note(f"  {name:24} {self.rows[name]:6}  {', '.join(f'{calls} {name}' for name, calls in most)}")


def count(rig, export_options, wait):
    """Returns {command: messages} on a new mount of an export with these options."""
    server = rig.serve([f"/data={rig.export},rw,no_root_squash{export_options}"])
    rig.mount(server)
    archive = source_tree(rig)
    counter = Counter(rig)
    note(f"messages{export_options}:")
    counter.run("untar", "tar", "-xf", archive, directory=".")
    counter.run("git init, add, commit", "sh", "-c", " && ".join(
        " ".join(f"'{word}'" for word in GIT + rest) for rest in (
            ["init", "-q", "."], ["add", "."], ["commit", "-q", "-m", "m"])))
    counter.run("ls -lR", "ls", "-lR")
    counter.run("ls -lR again", "ls", "-lR")
    counter.run("git status", *GIT, "status", "--short")
    counter.run("git status again", *GIT, "status", "--short")
    if wait:
        time.sleep(wait)
        counter.run(f"git status after {wait} s", *GIT, "status", "--short")
    counter.run("grep -r", "grep", "-rc", "function7", ".", "--include=*.c")
    counter.run("grep -r again", "grep", "-rc", "function7", ".", "--include=*.c")
    counter.run(f"make of {MADE} files", "make", "-s", "-j1")
    counter.run("make again", "make", "-s", "-j1")
    rig.umount()
    server.stop()
    subprocess.run(["rm", "-rf", rig.export / "tree", rig.local / "tree"], check=True)
    return counter.rows


@scenario(timeout=400, where="server")
def promises_messages(rig):
    """Messages of untar, ls, git, grep and make, on an export that only clients change and on any export."""
    rig.need("git", "tar", "make", "cc", "grep")
    wait = 61 if rig.full else 0
    exact = count(rig, ",changed_by=clients", wait)
    bounded = count(rig, "", wait)
    note(f"{'':24} {'clients':>8} {'anyone':>8}")
    for name, messages in exact.items():
        note(f"{name:24} {messages:8} {bounded[name]:8}")
    for name, most in MOST.items():
        check(exact[name] <= most, f"{exact[name]} messages of {name}, more than {most}")
    check(exact.get(f"git status after {wait} s", 0) <= 40, "messages of git status after a while")
    for name in ("untar", "grep -r again", f"make of {MADE} files"):  # promises must not cost more than no promises
        check(exact[name] <= bounded[name] * 1.1, f"{exact[name]} messages of {name}, otherwise {bounded[name]}")
