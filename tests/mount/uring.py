"""FUSE over io_uring: a parameter of the kernel's fuse module enables it. The default is N."""

import contextlib
import os

PARAMETER = "/sys/module/fuse/parameters/enable_uring"


def _read():
    with open(PARAMETER, encoding="ascii") as file:
        return file.read().strip()


def _write(value):
    with open(PARAMETER, "w", encoding="ascii") as file:
        file.write(value)


@contextlib.contextmanager
def parameter(value):
    """Sets the parameter to `value`, "Y" or "N", and restores it at the end. Yields the reason if it cannot be set,
    else None."""
    if not os.path.exists(PARAMETER):
        yield f"this kernel has no FUSE over io_uring ({PARAMETER})"
        return
    before = _read()
    if before != value:
        try:
            _write(value)
        except OSError as error:
            yield f"{PARAMETER}: {error.strerror}"
            return
    try:
        yield None
    finally:
        if before != value:
            _write(before)


def offered(wanted=True):
    """Makes the kernel offer io_uring until the end, if `wanted`. Yields why it cannot; None if it can or need not."""
    return parameter("Y") if wanted else contextlib.nullcontext()
