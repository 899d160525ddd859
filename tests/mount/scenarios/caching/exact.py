"""With a server that announces changes, a mount shows the changes of other clients at once, with default options."""

import multiprocessing
import os
import random
import signal
import stat
import threading
import time

import proxy
from known_tree import ATTRIBUTES, DIRECTORY, LINK, KnownTree
from rig import check, equal, note, scenario

from scenarios.files.ranges import PROGRAM, model_arguments
from scenarios.recovery.failures import mount_through
from .caching import two_mounts, write
from .promises import await_promises, status

CLIENTS = ",changed_by=clients"


def seen(point, path):
    """The result of lstat(2), except the time of access; None if the path does not exist."""
    try:
        found = os.lstat(point / path)
    except FileNotFoundError:
        return None
    return {"mode": found.st_mode, "links": found.st_nlink, "size": found.st_size, "inode": found.st_ino,
            "owner": found.st_uid, "group": found.st_gid, "mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns}


def look(there, tree, path, what):
    """On the mount `there` the path is what `tree` has. Returns what lstat(2) shows."""
    node = tree.nodes.get(path)
    found = seen(there, path)
    equal(found is not None, node is not None, f"{what}: {path} exists")
    if node is None:
        return found
    if node.kind == LINK:
        check(stat.S_ISLNK(found["mode"]), f"{what}: {path} is not a symbolic link")
        equal(os.readlink(os.fsencode(there / path)), node.data, f"{what}: target of {path}")
        return found
    equal(stat.S_IMODE(found["mode"]), node.mode, f"{what}: mode of '{path}'")
    equal({name: os.getxattr(there / path, name) for name in os.listxattr(there / path) if name in ATTRIBUTES},
          node.attributes, f"{what}: extended attributes of {path}")
    if node.kind == DIRECTORY:
        check(stat.S_ISDIR(found["mode"]), f"{what}: {path} is not a directory")
        check(found["links"] in (1, tree.links(node)), f"{what}: '{path}' has {found['links']} links")
        return found
    equal((stat.S_IFMT(found["mode"]), found["size"], found["links"]),
          (stat.S_IFREG, len(node.data), tree.links(node)), f"{what}: type, size and links of {path}")
    with open(there / path, "rb") as file:
        equal(file.read(), node.data, f"{what}: content of {path}")
    return found


TOP = "tree"


def change_and_look(points, count, each=lambda number: None):
    """Makes random changes on one of two mounts. After each, stat, open, readlink, readdir and getxattr on the other
    show it, and stat shows the same on both. Calls each(number) before each change."""
    os.mkdir(points[0] / TOP, 0o755)
    tops = [point / TOP for point in points]
    seed = random.randrange(1 << 30)
    note(f"seed {seed}, {count} changes")
    tree, slowest = KnownTree(seed), (0, "")
    for number in range(count):
        each(number)
        here, there = tree.random.sample(tops, 2)
        start = time.monotonic()
        kind, paths = tree.change(here)
        slowest = max(slowest, (time.monotonic() - start, f"{number}, {kind} on {here.parent.name}"))
        what = f"seed {seed}, change {number}, {kind} on {here.parent.name}"
        for path in paths:
            equal(look(there, tree, path, what), seen(here, path), f"{what}: stat of '{path}' on {there.parent.name}")
        equal(seen(points[1], ""), seen(points[0], ""), f"{what}: stat of the root of both mounts")
        other = tree.any_path()
        look(there, tree, other, f"{what}: another")
        directory = os.path.dirname(tree.random.choice([*paths, other]))
        if directory in tree.nodes:
            equal(sorted(os.listdir(there / directory)), tree.names_in(directory), f"{what}: names in '{directory}'")
    note(f"slowest change: {slowest[0]:.2f} s, {slowest[1]}")
    return tree


def check_all(tree, points, export):
    """At the end both mounts and the exported directory have what the tree has."""
    for point in (*points, export):
        what = f"at the end, on {point.name}"
        for path, node in tree.nodes.items():
            look(point / TOP, tree, path, what)
            if node.kind == DIRECTORY:
                equal(sorted(os.listdir(point / TOP / path)), tree.names_in(path), f"{what}: names in '{path}'")


def changes(rig):
    return 100_000 if rig.full else 2_000


def check_exact(rig, export_options, caching):
    points = two_mounts(rig, "rw", export_options)
    check_all(change_and_look(points, changes(rig)), points, rig.export)
    for point in points:
        found = status(rig, point)
        note(f"{point.name}: {found['promises']}")
        equal((found["caching"], found["promises"]["voids"]), (caching, 0), f"caching of {point.name}, lost promises")
        check(found["promises"]["breaks"] > changes(rig) / 10, f"{point.name} received few announcements")


@scenario(timeout=3600, where="server")
def exact(rig):
    """Each of 2,000 random changes on either of two mounts (100,000 in a full run) is seen on the other at once."""
    check_exact(rig, "", "bounded")


@scenario(timeout=3600, where="server")
def exact_clients(rig):
    """The same on an export that only clients change: the kernel keeps names and attributes for minutes."""
    check_exact(rig, CLIENTS, "exact")


@scenario(timeout=3600, where="server")
def exact_killed(rig):
    """The same while the server is killed and restarted every 200 to 400 changes (1,000 to 2,000 in a full run)."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting")
    points = two_mounts(rig, "rw", CLIENTS)
    server, every, dice = rig.servers[0], 1000 if rig.full else 200, random.Random()
    made = multiprocessing.Value("L", 0)

    def count(number):
        made.value = number

    def run():
        check_all(change_and_look(points, changes(rig), count), points, rig.export)

    # In a process of its own: a child with open files of a mount would wait for the server that it is to run.
    load = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    load.start()
    kills = 0
    while load.is_alive():
        due = made.value + dice.randrange(every, 2 * every)
        while made.value < due and load.is_alive():
            load.join(0.002)
        if load.is_alive():
            server.stop(signal.SIGKILL)
            server.start()
            kills += 1
    note(f"the server was killed {kills} times")
    equal(load.exitcode, 0, "exit status of the process that makes the changes, whose error is in scenario.log")
    check(kills >= 4, f"the server was killed only {kills} times")
    for point in points:
        await_promises(rig, point, "exact")


@scenario(timeout=3600, where="server", loopback=True)
def exact_cut(rig):
    """The same while the Back-control Channel of a mount, or all connections of its control session, are ended now and
    then, in the middle of a change or of what looks at it."""
    rig.expect("session with .* lost", "no session for", "new session", "still waiting")
    server = rig.serve([f"/data={rig.export},rw,no_root_squash{CLIENTS}"])
    other = rig.base / "other"
    other.mkdir()
    dice = random.Random()
    with proxy.Proxy(server.port) as relay:
        points = [mount_through(rig, relay, server), mount_through(rig, relay, server, point=other)]

        def cut(number):
            if number % 50 == 0:
                direction, what = dice.choice((proxy.TO_SERVER, proxy.TO_CLIENT)), dice.choice((proxy.CUT, proxy.RESET))
                relay.break_after(direction, dice.randrange(1, 200), what,
                                  dice.choice((proxy.BACK_CONTROL, proxy.CONTROL)))

        tree = change_and_look(points, changes(rig), cut)
        relay.break_nothing()
        note(f"{relay.broken} cuts")
        check(relay.broken > changes(rig) / 100, f"only {relay.broken} cuts")
        for point in points:
            await_promises(rig, point, "exact")
            note(f"{point.name}: {status(rig, point)['promises']}")
            check(status(rig, point)["promises"]["voids"] > relay.broken / 8, f"{point.name} lost few promises")
        check_all(tree, points, rig.export)
        for point in points:
            rig.umount(point)


@scenario(timeout=600, where="server")
def exact_whole(rig):
    """Two mounts show which names exist after each change. Now and then the other mount goes on with the changes, so
    that each one knows directories wholly that it changes, and loses them again."""
    points = two_mounts(rig, "rw", CLIENTS)
    os.mkdir(points[0] / TOP, 0o755)
    tops = [point / TOP for point in points]
    seed = random.randrange(1 << 30)
    note(f"seed {seed}")
    tree, here = KnownTree(seed), tops[0]
    for number in range(changes(rig) // 2):
        if tree.random.random() < 0.05:
            here = tree.random.choice(tops)
        kind, paths = tree.change(here)
        paths = [*paths, tree.any_path()]
        directory = os.path.dirname(tree.random.choice(paths))
        for top in tree.random.sample(tops, 2):
            what = f"seed {seed}, change {number}, {kind} on {here.parent.name}, seen on {top.parent.name}"
            for path in dict.fromkeys(paths):
                look(top, tree, path, what)
            if directory not in tree.nodes:
                continue
            equal(sorted(os.listdir(top / directory)), tree.names_in(directory), f"{what}: names in '{directory}'")
            with os.scandir(top / directory) as entries:
                for entry in entries:
                    equal(entry.inode(), entry.stat(follow_symlinks=False).st_ino, f"{what}: number of {entry.path}")
    check_all(tree, points, rig.export)


@scenario(timeout=60, where="server")
def exact_access(rig):
    """The kernel checks permissions by the mode that another mount has set, at the first call after it."""
    for export_options in ("", CLIENTS):
        here, there = two_mounts(rig, "", export_options)
        write(here / "file", b"x")
        late = []
        for turn in range(200):
            mode = (0o755, 0o644)[turn % 2]
            os.access(there / "file", os.X_OK)
            os.chmod(here / "file", mode)
            if os.access(there / "file", os.X_OK) != bool(mode & 0o100):
                late.append(turn)
        equal(late, [], "turns at which access(2) did not see the mode")
        for point in (here, there):
            rig.umount(point)


@scenario(timeout=120, where="server")
def exact_both(rig):
    """Two mounts that change names in one directory at the same time neither stop each other nor see old names."""
    here, there = two_mounts(rig, "rw")
    (here / "shared").mkdir()
    failures, rounds = [], 150

    def work(own, other, number):
        try:
            for turn in range(rounds):
                name = f"{number} {turn}"
                write(own / "shared" / name, name.encode())
                os.rename(own / "shared" / name, own / "shared" / f"{name} moved")
                check(not os.path.exists(other / "shared" / name), f"{name} exists on the other mount")
                equal((other / "shared" / f"{name} moved").read_text(), name, "content on the other mount")
                if turn % 2:
                    os.unlink(own / "shared" / f"{name} moved")
                    check(not os.path.exists(other / "shared" / f"{name} moved"), f"{name} is still there")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(*ends, number))
               for number, ends in enumerate(((here, there), (there, here), (here, there), (there, here)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
    for point in (here, there):
        equal(len(os.listdir(point / "shared")), 4 * rounds // 2, f"names on {point.name}")


@scenario(timeout=7200, where="server")
def model_exact(rig):
    """6,000 random calls (200,000 in a full run) on two mounts with caches do the same as on a local directory. After
    each call both mounts show the same, times and data included."""
    for number, export_options in enumerate((CLIENTS, "")):
        points = two_mounts(rig, "nowrite_behind", export_options)
        here, there, plain = (root / f"model{number}" for root in (*points, rig.local))
        here.mkdir()
        plain.mkdir()
        rig.run([PROGRAM, *model_arguments(rig, 100_000, least=3_000), "--exact", "--beside", there, here, plain], cwd="/",
                timeout=3500)
        for point in points:
            rig.umount(point)
