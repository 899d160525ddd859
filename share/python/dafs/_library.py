"""Binds the shared library: its functions by cffi, and its errors as exceptions."""

import errno
import os
import pathlib
import re

import cffi

ffi = cffi.FFI()


def _declarations():
    """Returns dafs.h without what only a preprocessor understands. The file lies beside this one when it is installed."""
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / "dafs.h", here.parents[2] / "client/c/dafs.h"):
        if path.is_file():
            break
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffi.cdef(_declarations())
# DAFS_LIBRARY: for a library that is not installed.
lib = ffi.dlopen(os.environ.get("DAFS_LIBRARY", "libdafs.so.1"))


class Error(OSError):
    """A call has failed. `errno` and `strerror` are those of OSError; `status` is the server's DAFSERR code, or 0.

    The exception is also of the class that Python has for its errno: FileNotFoundError, PermissionError and the like.
    """

    status = 0


class BrokenLockError(Error):
    """The client that held the lock has failed: what it protects may be half changed. lock(repair=True) takes it over."""


_CLASSES = {errno.EOWNERDEAD: BrokenLockError}


def make_error(number, message, status):
    """Returns the exception of the errno `number`."""
    if number not in _CLASSES:
        builtin = type(OSError(number, ""))
        _CLASSES[number] = Error if builtin is OSError else type(builtin.__name__, (Error, builtin), {"__module__": __name__})
    error = _CLASSES[number](number, message)
    error.status = status
    return error


def check(result):
    """Raises the last error of this thread if `result` is negative; returns it otherwise."""
    if result >= 0:
        return result
    message = ffi.string(lib.dafs_error()).decode(errors="replace")
    raise make_error(-result, message, lib.dafs_error_status())


def encoded(path):
    """Returns a path or name as the library takes it. None is NULL."""
    if path is None:
        return ffi.NULL
    data = os.fsencode(path)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return ffi.new("char[]", data)


def structure(kind, **fields):
    """Returns a pointer to a structure of the library, with its size."""
    made = ffi.new(f"struct {kind} *", fields)
    made.size = ffi.sizeof(f"struct {kind}")
    return made
