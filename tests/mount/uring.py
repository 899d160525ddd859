"""FUSE over io_uring: whether the kernel offers it is a parameter of its module, N unless somebody sets it."""

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
    """The parameter is `value`, "Y" or "N", until the end; then what it was before. Yields why not, None if it is."""
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
    """The kernel offers it until the end, if `wanted`. Yields why it cannot, None if it does or is not to."""
    return parameter("Y") if wanted else contextlib.nullcontext()
