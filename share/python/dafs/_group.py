"""Asynchronous reads and writes for asyncio. The descriptor of a completion group wakes the event loop."""

import asyncio
import itertools

from . import Memory, _Closing
from ._library import check, ffi, lib, make_error

_MOST = 64  # completions taken at once


class Group(_Closing):
    """Reads and writes as coroutines: `data = await group.read(file, size, offset)`.

    Belongs to the event loop in which it is first used, and to the thread of the session. Requests that are begun in one
    turn of the event loop are sent together. A cancelled coroutine keeps its buffer until the server cannot use it.
    """

    def __init__(self, session, handle):
        self._session, self._handle = session, handle
        self._completions = ffi.new("struct dafs_completion[]", _MOST)
        self._waiting = {}  # by cookie: the future, and what must live until the completion
        self._cookies = itertools.count(1)
        self._loop = None
        self._descriptor = -1

    def close(self):
        """Ends the group. Every coroutine must have ended."""
        if self._handle == ffi.NULL:
            return
        if self._loop is not None and not self._loop.is_closed():
            while self._collect():  # of cancelled coroutines
                pass
            if lib.dafs_group_pending(self._handle) == 0:
                self._loop.remove_reader(self._descriptor)  # before it is closed
        check(lib.dafs_group_close(self._handle))
        self._handle = ffi.NULL

    async def read(self, file, size, offset):
        """Returns up to `size` bytes; fewer only at the end of the file."""
        into = bytearray(size)
        count = await self.readinto(file, into, offset)
        return bytes(memoryview(into)[:count])

    async def readinto(self, file, buffer, offset, size=None):
        """Reads into a writable buffer, or into a Memory, by RDMA. Returns the number of bytes."""
        return await self._run(lib.dafs_read_async, file, buffer, offset, size, (), writable=True)

    async def write(self, file, data, offset, size=None, *, stable=False):
        """Writes a buffer, or a Memory. `stable`: the data is on the server's disk when it ends. Returns the bytes."""
        stability = 2 if stable else 0
        return await self._run(lib.dafs_write_async, file, data, offset, size, (stability,), writable=False)

    async def _run(self, call, file, buffer, offset, size, extra, writable):
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._descriptor = check(lib.dafs_group_fd(self._handle))
            loop.add_reader(self._descriptor, self._collect)
            self._loop = loop
        registered = isinstance(buffer, Memory)
        view = buffer._view if registered else ffi.from_buffer(buffer, require_writable=writable)
        size = len(view) if size is None else size
        if not 0 <= size <= len(view) or size > 0xffffffff:
            raise ValueError(f"size {size} for a buffer of {len(view)} bytes")
        if size == 0:
            return 0
        segment = ffi.new("struct dafs_segment *", [ffi.cast("void *", view), size, buffer._number if registered else 0])
        where = ffi.new("struct dafs_range *", [offset, size, 0])
        cookie, number = next(self._cookies), ffi.new("uint64_t *")
        check(call(file._handle, self._handle, segment, 1, where, 1, *extra, cookie, number))
        future = loop.create_future()
        self._waiting[cookie] = (future, view, buffer)
        try:
            return await future
        except asyncio.CancelledError:
            if cookie in self._waiting:
                lib.dafs_cancel(self._session, number[0])
            raise

    def _collect(self):
        """Takes completions and wakes their coroutines. Returns how many it has taken."""
        try:
            count = check(lib.dafs_group_poll(self._handle, self._completions, _MOST))
        except OSError as error:
            for future, *_ in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
            self._loop.remove_reader(self._descriptor)
            return 0
        for done in self._completions[0:count]:
            future, view, buffer = self._waiting.pop(done.cookie)
            if not isinstance(buffer, Memory):
                ffi.release(view)
            if future.done():  # cancelled
                continue
            if done.count < 0:
                message = ffi.string(done.message).decode(errors="replace")
                future.set_exception(make_error(-done.count, message, done.status))
            else:
                future.set_result(done.count)
        return count
