"""Programs without knowledge of DAFS: git, make and g++, SQLite, rsync, fio, tar."""

import os
import random
import stat

import processes
import tree
from rig import check, equal, scenario

NOBODY = 65534


def make_files(root, count, seed, largest=4000):
    """Writes `count` small files of reproducible text below `root`, a hundred to a directory."""
    dice = random.Random(seed)
    for number in range(count):
        directory = root / f"d{number // 100:03}"
        if number % 100 == 0:
            directory.mkdir(parents=True)
        size = dice.randrange(largest)
        (directory / f"f{number:05}.txt").write_bytes(dice.randbytes(size // 2).hex().encode() + b"\n")


@scenario(timeout=600, variants=True)
def git(rig):
    """A repository of thousands of files: add, commit, clone, change, gc, fsck."""
    # Shows DAFS-2.4.1-03, FAST03-4-03: unmodified programs on a mount point.
    rig.need("git")
    count = 5000 if rig.full else 2000
    env = dict(os.environ, HOME=str(rig.local), GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@t",
               GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@t")
    repo, clone = rig.root / "repo", rig.root / "clone"
    repo.mkdir()
    make_files(repo / "src", count, seed=1)

    def run(where, *words):
        return rig.run(["git", *words], cwd=where, env=env)

    run(repo, "init", "-q", "-b", "main", ".")
    run(repo, "add", "-A")
    run(repo, "commit", "-q", "-m", "first")
    equal(run(repo, "status", "--porcelain"), "", "git status after commit")
    run(rig.root, "clone", "-q", "--no-hardlinks", str(repo), str(clone))
    equal(tree.differences(repo / "src", clone / "src", times=False), [], "clone against origin")
    for number in range(0, count, 50):
        with open(clone / "src" / f"d{number // 100:03}" / f"f{number:05}.txt", "a", encoding="ascii") as changed:
            changed.write("one more line\n")
    equal(len(run(clone, "status", "--porcelain").splitlines()), count // 50, "files that git status sees changed")
    run(clone, "commit", "-q", "-a", "-m", "second")
    run(clone, "push", "-q", "origin", "main:second")
    run(clone, "checkout", "-q", "-b", "side", "HEAD~1")
    run(clone, "mv", "src/d000", "src/moved")
    run(clone, "commit", "-q", "-m", "third")
    run(clone, "-c", "merge.directoryRenames=false", "merge", "-q", "-m", "merge", "main")
    run(clone, "gc", "-q")
    for where in (repo, clone):
        run(where, "fsck", "--full", "--strict")
    equal(run(clone, "status", "--porcelain"), "", "git status at the end")


SOURCE = """#include "all.h"
#include <map>
#include <string>
#include <vector>
int Part%(n)d(int seed) {
  std::map<int, std::string> words;
  for (int i = 0; i < 50; ++i) words[(i * 7919 + seed) %% 61] = std::to_string(i * %(n)d);
  int sum = 0;
  for (const auto& [key, word] : words) sum += key * static_cast<int>(word.size());
  return sum;
}
"""
MAKEFILE = """SOURCES := $(wildcard *.cc)
OBJECTS := $(SOURCES:.cc=.o)
program: $(OBJECTS) libparts.a
\t$(CXX) -o $@ main.o -L. -lparts
libparts.a: $(filter-out main.o,$(OBJECTS))
\trm -f $@ && $(AR) rcs $@ $^
%.o: %.cc
\t$(CXX) -std=c++17 -O1 -MMD -c -o $@ $<
-include $(OBJECTS:.o=.d)
"""


@scenario(timeout=300, variants=True)
def build(rig):
    """Unpacks a source tree, builds it with make -j2, runs the program, changes a file and builds again."""
    rig.need("make", "g++", "tar")
    parts = 60 if rig.full else 12
    source = rig.local / "source"
    source.mkdir()
    (source / "all.h").write_text("#pragma once\n" + "".join(f"int Part{n}(int seed);\n" for n in range(parts)))
    for number in range(parts):
        (source / f"part{number}.cc").write_text(SOURCE % {"n": number})
    (source / "main.cc").write_text('#include <cstdio>\n#include "all.h"\nint main() { long sum = 0;\n' +
                                    "".join(f"sum += Part{n}({n});\n" for n in range(parts)) +
                                    'std::printf("%ld\\n", sum); }\n')
    (source / "Makefile").write_text(MAKEFILE)
    archive = rig.local / "source.tar.gz"
    rig.run(["tar", "czf", archive, "-C", rig.local, "source"])
    rig.run(["tar", "xzf", archive])
    where = rig.root / "source"
    rig.run(["make", "-j2", "-s"], cwd=where)
    found = rig.run(["./program"], cwd=where)
    rig.run(["make", "-j2", "-s"], cwd=source)
    equal(found, rig.run(["./program"], cwd=source), "what the program prints")
    check("up to date" in rig.run(["make"], cwd=where), "make builds again although nothing changed")
    rig.run(["touch", "part1.cc"], cwd=where)
    check(rig.run(["make"], cwd=where).count(" -c ") == 1, "make does not build exactly what changed")


SCHEMA = """CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, body BLOB);
CREATE INDEX by_size ON item(size);
"""


@scenario(timeout=180, variants=True)
def sqlite(rig):
    """SQLite with a rollback journal and with a WAL: many transactions, two writers, integrity check."""
    rig.need("sqlite3")
    rows = 20000 if rig.full else 4000
    fill = "".join(
        "BEGIN;\n" + "".join(f"INSERT INTO item VALUES({n},'name{n}',{n * 7919 % 1000},zeroblob({n % 500}));\n"
                             for n in range(start, start + 100)) + "COMMIT;\n" for start in range(0, rows, 100))
    change = ("UPDATE item SET size=size+1 WHERE id%3=0;\nDELETE FROM item WHERE id%7=0;\n"
              "INSERT INTO item(name,size) SELECT 'new'||id,size FROM item WHERE id%11=0;\nVACUUM;\n")
    for mode in ("delete", "wal"):
        dumps = []
        for where in (rig.root, rig.local):
            database = where / f"{mode}.db"
            mode_set = rig.run(["sqlite3", database], stdin=f"PRAGMA journal_mode={mode};".encode()).strip()
            equal(mode_set, mode, "journal mode")
            rig.run(["sqlite3", database], stdin=(SCHEMA + fill + change).encode())
            equal(rig.run(["sqlite3", database, "PRAGMA integrity_check;"]).strip(), "ok", "integrity check")
            dumps.append(rig.run(["sh", "-c", f"sqlite3 '{database}' .dump | sha256sum"]))
        equal(dumps[0], dumps[1], f"dump of the {mode} database against one on the local disk")
        # Two programs at once: each waits for the other's locks.
        database = rig.root / f"{mode}.db"
        loop = ("for i in $(seq 50); do echo \"PRAGMA busy_timeout=20000; INSERT INTO item(name,size) "
                "VALUES('$0-'||$i,$i);\"; done | sqlite3 " + f"'{database}' >/dev/null")
        rig.run(["sh", "-c", f"sh -c '{loop}' one & sh -c '{loop}' two & wait %1 && wait %2".replace(
            f"'{loop}'", '"$LOOP"')], env=dict(os.environ, LOOP=loop))
        count = rig.run(["sqlite3", database, "SELECT count(*) FROM item WHERE name GLOB 'one-*' OR name GLOB 'two-*';"])
        equal(count.strip(), "100", "rows of two writers")
        equal(rig.run(["sqlite3", database, "PRAGMA integrity_check;"]).strip(), "ok", "integrity check at the end")


@scenario(timeout=240, variants=True)
def rsync(rig):
    """rsync -a there and back, with a checksum compare of every file, owner, mode, time and link."""
    rig.need("rsync")
    source = rig.local / "tree"
    make_files(source, 2000 if rig.full else 600, seed=2, largest=20000)
    dice = random.Random(3)
    for number in range(4):
        (source / f"big{number}").write_bytes(dice.randbytes(3_000_000 + number))
    (source / "empty").touch()
    (source / "empty dir").mkdir()
    os.symlink("d000/f00001.txt", source / "link")
    os.symlink("/does/not/exist", source / "dangling")
    os.link(source / "big0", source / "again")
    os.chmod(source / "big1", 0o4711)
    os.chown(source / "big2", 12345, 54321)
    os.utime(source / "big3", ns=(1_000_000_000_123_456_789, 1_234_567_890_987_654_321))
    for number, entry in enumerate(sorted(source.iterdir())):  # rsync takes times of one second for equal
        if entry.is_dir():
            os.utime(entry, ns=(5, (1_000_000_000 + number) * 1_000_000_000 + 7))
    there, back = rig.root / "tree", rig.local / "back"
    rig.run(["rsync", "-aH", f"{source}/", f"{there}/"])
    equal(rig.run(["rsync", "-aHcn", "--itemize-changes", "--delete", f"{source}/", f"{there}/"]), "",
          "what rsync would still change")
    rig.run(["rsync", "-aH", f"{there}/", f"{back}/"])
    equal(tree.differences(source, back), [], "there and back")
    (source / "d000" / "f00000.txt").write_text("changed\n")
    rig.run(["rsync", "-aHc", "--delete", "--inplace", f"{source}/", f"{there}/"])
    equal(tree.differences(source, there), [], "after a second rsync")


@scenario(timeout=300, variants=True)
def fio(rig):
    """fio with verify: several jobs, buffered and O_DIRECT, sequential and random, small and large blocks."""
    rig.need("fio")
    size = "64m" if rig.full else "8m"
    common = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--minimal", "--group_reporting",
              "--fallocate=none", f"--size={size}", f"--directory={rig.root}"]
    for name, words in {
            "buffered": ["--rw=randwrite", "--bs=4k", "--numjobs=4", "--ioengine=psync", "--end_fsync=1"],
            "direct": ["--rw=randwrite", "--bs=4k", "--numjobs=2", "--ioengine=libaio", "--iodepth=8", "--direct=1"],
            "stream": ["--rw=write", "--bs=1m", "--numjobs=2", "--ioengine=psync", "--direct=1"],
            "odd": ["--rw=randwrite", "--bsrange=512-128k", "--bs_unaligned=1", "--numjobs=2", "--ioengine=psync"],
            "mixed": ["--rw=randrw", "--bs=16k", "--numjobs=2", "--ioengine=psync", "--fsync=32"],
            "mapped-mix": ["--rw=randrw", "--bsrange=4k-64k", "--numjobs=4", "--ioengine=mmap", "--fsync=64"],
            "verify-behind": ["--rw=randwrite", "--bs=8k", "--numjobs=4", "--ioengine=psync", "--verify_backlog=64"],
            "mapped": ["--rw=randwrite", "--bs=4k", "--numjobs=2", "--ioengine=mmap"],
    }.items():
        rig.run(["fio", f"--name={name}", *words, *common])
        for file in rig.root.glob(f"{name}.*"):
            file.unlink()


@scenario(timeout=120, variants=True)
def tar(rig):
    """tar with hard links, symlinks, FIFOs, a device, setuid modes and two owners: there, compared, and back."""
    rig.need("tar")
    source = rig.local / "tree"
    make_files(source, 200, seed=4)
    first = source / "d000" / "f00000.txt"
    for number in range(5):
        os.link(first, source / f"hard{number}")
    os.symlink("x" * 300, source / "long link")
    os.mkfifo(source / "fifo", 0o620)
    if os.geteuid() == 0:
        os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chown(source / "d001" / "f00100.txt", 65534, 65534)
        os.chown(source / "d001", 1234, 4321)
    os.chmod(source / "d001" / "f00101.txt", 0o6755)
    os.chmod(source / "d001", 0o3775)
    os.utime(source / "d001", ns=(0, 987_654_321_123_456_789))
    archive = rig.local / "tree.tar"
    rig.run(["tar", "--format=pax", "-cf", archive, "-C", rig.local, "tree"])
    rig.run(["tar", "-xpf", archive])
    equal(rig.run(["tar", "-df", archive]), "", "tar --compare")
    equal(tree.differences(source, rig.root / "tree"), [], "unpacked tree")
    again = rig.local / "again.tar"
    rig.run(["tar", "--format=pax", "-cf", again, "tree"])
    (rig.local / "back").mkdir()
    rig.run(["tar", "-xpf", again], cwd=rig.local / "back")
    equal(tree.differences(source, rig.local / "back" / "tree"), [], "there and back")


def _busy_repository(rig, repo, env, worker, rounds):
    """One of several users of a repository at once, each with a working tree of its own."""
    mine = repo.parent / f"tree{worker}"
    for turn in range(rounds):
        make_files(mine / f"turn{turn}", 40, seed=100 * worker + turn)
        for words in (["add", "-A"], ["commit", "-q", "-m", f"{worker}.{turn}"], ["status", "--porcelain"],
                      ["log", "--stat", "-1"], ["diff", "HEAD~1", "--shortstat"]):
            rig.run(["git", *words], cwd=mine, env=env)


@scenario(timeout=600, variants=True)
def git_at_once(rig):
    """Four programs commit to one repository, from trees of their own, while several threads repack it; then fsck."""
    rig.need("git")
    env = dict(os.environ, HOME=str(rig.local), GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@t",
               GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@t")
    repo = rig.root / "repo"
    repo.mkdir()
    make_files(repo / "src", 300, seed=9)
    for words in (["init", "-q", "-b", "main", "."], ["config", "gc.auto", "0"], ["config", "pack.threads", "4"],
                  ["add", "-A"], ["commit", "-q", "-m", "first"]):
        rig.run(["git", *words], cwd=repo, env=env)
    for worker in range(4):
        rig.run(["git", "worktree", "add", "-q", "-b", f"side{worker}", str(rig.root / f"tree{worker}")], cwd=repo, env=env)
    rounds = 8 if rig.full else 2

    def pack():
        for _ in range(rounds):
            rig.run(["git", "repack", "-q", "-d", "--threads=4"], cwd=repo, env=env)
            rig.run(["git", "pack-refs", "--all"], cwd=repo, env=env)

    processes.fork_all([pack] + [lambda worker=worker: _busy_repository(rig, repo, env, worker, rounds)
                                 for worker in range(4)])
    for worker in range(4):
        count = rig.run(["git", "rev-list", "--count", f"side{worker}"], cwd=repo, env=env)
        equal(int(count), rounds + 1, f"commits on side{worker}")
    rig.run(["git", "gc", "-q", "--prune=now"], cwd=repo, env=env)
    rig.run(["git", "fsck", "--full", "--strict"], cwd=repo, env=env)
    rig.run(["git", "clone", "-q", "-j", "4", "--no-local", str(repo), "copy"], cwd=rig.root, env=env)
    equal(rig.run(["git", "status", "--porcelain"], cwd=rig.root / "tree1", env=env), "", "git status at the end")


PACKAGE = {
    "debian/control": "Source: trial\nMaintainer: T <t@t>\nBuild-Depends: debhelper-compat (= 13)\nStandards-Version: 4.6.0\n"
                      "Rules-Requires-Root: no\n\nPackage: trial\nArchitecture: any\nDepends: ${shlibs:Depends}\n"
                      "Description: trial\n A package that is built to be looked at.\n",
    "debian/changelog": "trial (1.0) unstable; urgency=low\n\n  * First.\n\n -- T <t@t>  Thu, 01 Jan 2026 00:00:00 +0000\n",
    "debian/rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n",
    "debian/source/format": "3.0 (native)\n",
    "Makefile": "all: trial\ntrial: main.o part.o\n\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^\n"
                "install: all\n\tinstall -D -m 755 trial $(DESTDIR)/usr/bin/trial\n"
                "\tinstall -D -m 644 README $(DESTDIR)/usr/share/trial/README\n"
                "\tln -s README $(DESTDIR)/usr/share/trial/READ.ME\nclean:\n\trm -f trial *.o\n",
    "main.c": '#include <stdio.h>\nint Part(void);\nint main(void) { return printf("%d\\n", Part()) < 0; }\n',
    "part.c": "int Part(void) { return 42; }\n",
    "README": "To be looked at.\n",
}


@scenario(timeout=300, variants=True)
def package(rig):
    """A Debian package built by an ordinary user, source and all; unpacked again, its program runs."""
    rig.need("dpkg-buildpackage", "dh", "gcc")
    yard = rig.root / "yard"
    source = yard / "trial-1.0"
    for name, text in PACKAGE.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (source / "debian" / "rules").chmod(0o755)
    for directory, names, files in os.walk(yard):
        for path in [directory] + [os.path.join(directory, name) for name in names + files]:
            os.chown(path, NOBODY, NOBODY)
    env = dict(os.environ, HOME=str(yard), LC_ALL="C")
    rig.run(["dpkg-buildpackage", "-us", "-uc", "-j2"], cwd=source, user=NOBODY, env=env)
    (built,) = yard.glob("trial_1.0_*.deb")
    listing = rig.run(["dpkg-deb", "--contents", built])
    for line in ("-rwxr-xr-x root/root", "./usr/share/trial/READ.ME -> README"):
        check(line in listing, f"the package has no {line}")
    rig.run(["dpkg-deb", "-x", built, yard / "out"], user=NOBODY)
    equal(rig.run([yard / "out" / "usr" / "bin" / "trial"], user=NOBODY), "42\n", "what the program prints")
    rig.run(["dpkg-source", "-x", yard / "trial_1.0.dsc", yard / "again"], cwd=yard, user=NOBODY, env=env)
    equal(tree.differences(source / "debian" / "source", yard / "again" / "debian" / "source", times=False), [], "source")
