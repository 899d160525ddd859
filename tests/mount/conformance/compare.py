"""Runs every case in two directories and reports the differences of their diaries."""

import fnmatch
import os
import time

from . import cases_attributes, cases_create, cases_edges, cases_names, cases_open, cases_paths, cases_remove
from .subject import Subject

MODULES = (cases_create, cases_names, cases_remove, cases_attributes, cases_paths, cases_open, cases_edges)


def all_cases():
    """Yields (name, function of a Subject) of every case, each name once."""
    seen = set()
    for module in MODULES:
        for name, function in module.cases():
            if name in seen:
                raise ValueError(f"two cases {name}")
            seen.add(name)
            yield name, function


def pause_for(directory):
    """Returns the wait after which ctime differs: 0 if the kernel gives changes that follow at once different times."""
    path = os.path.join(directory, ".clock")
    os.close(os.open(path, os.O_CREAT))
    times = set()
    for mode in range(0o600, 0o632):
        os.chmod(path, mode)
        times.add(os.stat(path).st_ctime_ns)
    os.unlink(path)
    return 0 if len(times) == 26 else 0.011


def perform(subject, number, function):
    """The diary of one case."""
    name = f"{number:05d}"
    subject.begin(name)
    try:
        function(subject)
    except Exception as error:  # pylint: disable=broad-except
        subject.note("case ended by", f"{type(error).__name__}: {error}")
    finally:
        subject.end(name)
    return subject.diary


def compare(mounted, plain, pattern="*", every=1):
    """Runs the cases whose name fits `pattern`, one in `every` of those in families. Returns (cases, checks, one line
    for each difference).
    """
    pause = pause_for(plain)
    left, right = Subject(str(mounted), pause), Subject(str(plain), pause)
    count = checks = 0
    found = []
    started = time.monotonic()
    for number, (name, function) in enumerate(all_cases()):
        if not fnmatch.fnmatch(name, pattern) or (number % every and name.count("/") > 1):
            continue
        here, there = perform(left, number, function), perform(right, number, function)
        count += 1
        checks += len(there)
        if here == there:
            continue
        for one, other in zip(here + ["-"] * (len(there) - len(here)), there + ["-"] * (len(here) - len(there))):
            if one != other:
                found.append(f"{name}: on the mount {one!r}, beside it {other!r}")
    os.chdir("/")
    print(f"posix: {count} cases, {checks} checks, {len(found)} differences, "
          f"{time.monotonic() - started:.1f} s", flush=True)
    return count, checks, found
