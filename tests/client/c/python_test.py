#!/usr/bin/python3
"""Tests of the Python package of libdafs: python_test.py SERVER:PORT. The server exports /data. Run by dafs_test.cc."""

import asyncio
import sys
import threading
import unittest

import dafs

SERVER = sys.argv.pop()


class SessionTest(unittest.TestCase):
    """Each test has a session, and removes what it has made."""

    def setUp(self):
        self.session = dafs.Session(SERVER, "/data", transport="tcp")
        self.addCleanup(self.session.close)

    def tearDown(self):
        for name, attributes in self.session.list():
            if attributes.type == "directory":
                for inner, _ in self.session.list(name):
                    self.session.remove(f"{name}/{inner}")
            self.session.remove(name)

    def make(self, path, data=b""):
        """Makes a file; returns it open for writing."""
        file = self.session.open(path, write=True, create=True)
        self.addCleanup(file.close)
        if data:
            file.write(data, 0)
        return file


class CallsTest(SessionTest):
    """Calls that block."""

    def test_files(self):
        file = self.make("file", b"hello")
        self.assertEqual(file.append(b" world"), 5)
        self.assertEqual(file.read(100, 0), b"hello world")
        into = bytearray(5)
        self.assertEqual(file.readinto(into, 6), 5)
        self.assertEqual(into, b"world")
        file.truncate(3)
        file.commit()
        file.hint("sequential")
        self.assertEqual(file.stat().size, 3)
        self.assertEqual(file.read(0, 0), b"")

    def test_names_and_attributes(self):
        self.session.mkdir("dir")
        self.make("dir/\N{SNOWMAN}", b"x")
        self.session.rename("dir/\N{SNOWMAN}", b"dir/b")
        self.session.link("dir/b", "dir/c")
        self.session.symlink("b", "dir/d")
        self.assertEqual(self.session.readlink("dir/d"), "b")
        self.assertEqual(sorted(name for name, _ in self.session.list("dir")), ["b", "c", "d"])
        self.session.set_attributes("dir/b", mode=0o600, mtime=1234.5)
        found = self.session.stat("dir/b")
        self.assertEqual((found.type, found.mode & 0o777, found.size, found.mtime, found.links), ("file", 0o600, 1, 1234.5, 2))
        self.assertTrue(self.session.verify("dir/b", size=1))
        self.assertFalse(self.session.nverify("dir/b", size=2))

    def test_errors(self):
        with self.assertRaises(FileNotFoundError) as caught:
            self.session.stat("no/such")
        error = caught.exception
        self.assertIsInstance(error, dafs.Error)
        self.assertEqual(error.status, 2)
        self.assertTrue(error.strerror.startswith(f"{SERVER}:/data: stat no/such: "), error.strerror)
        self.session.mkdir("dir")
        with self.assertRaises(FileExistsError):
            self.session.mkdir("dir")
        with self.assertRaises(ValueError):
            self.session.stat("a\0b")
        with self.assertRaises(dafs.Error):
            dafs.Session("127.0.0.1:1", "/data", transport="tcp")
        file = self.make("file")
        file.close()
        with self.assertRaises(dafs.Error):
            file.read(1, 0)
        with self.assertRaises((TypeError, ValueError, BufferError)):
            self.make("file").readinto(b"constant", 0)

    def test_other_thread_is_refused(self):
        caught = []

        def stat():
            try:
                self.session.stat("")
            except PermissionError as error:
                caught.append(error)
        thread = threading.Thread(target=stat)
        thread.start()
        thread.join()
        self.assertEqual(len(caught), 1)

    def test_locks(self):
        mine = self.make("file")
        with dafs.Session(SERVER, "/data", client_id="another") as other:
            theirs = other.open("file", write=True)
            theirs.lock(10, 5, persist=True)
            with self.assertRaises(BlockingIOError):
                mine.lock(wait=0.01)
            self.assertEqual(mine.test_lock(), dafs.Lock(10, 5, True))
            with dafs.Session(SERVER, "/data", client_id="another"):
                with self.assertRaises(dafs.BrokenLockError):
                    mine.lock(10, 5)
                mine.lock(10, 5, repair=True)
            mine.unlock()
            self.assertIsNone(mine.test_lock())

    def test_fencing(self):
        self.make("fenced").close()
        with dafs.Session(SERVER, "/data", fence_id="operator") as operator, \
                dafs.Session(SERVER, "/data", fence_id="node1") as node:
            operator.set_fence("fenced", ["node1", "operator"], update="overwrite")
            self.assertEqual(operator.fence("fenced"), ["node1", "operator"])
            node.open("fenced").close()
            operator.set_fence("fenced", ["node1"], access="deny", update="remove")
            with self.assertRaises(PermissionError):
                node.open("fenced")
            operator.set_fence("fenced", [], update="overwrite")
            self.assertEqual(operator.fence("fenced"), [])


class GroupTest(SessionTest):
    """Coroutines."""

    def run_in_group(self, coroutine):
        async def main():
            with self.session.group() as group:
                await coroutine(group)
        asyncio.run(main())

    def test_reads_and_writes_run_together(self):
        data = bytes(range(256)) * 4096
        file = self.make("file", data)

        async def check(group):
            blocks = await asyncio.gather(*(group.read(file, 65536, at) for at in range(0, len(data), 65536)))
            self.assertEqual(b"".join(blocks), data)
            memory = self.session.register(bytearray(b"abc" * 1000))
            self.assertEqual(await group.write(file, memory, 5, stable=True), 3000)
            with self.assertRaises(FileNotFoundError):  # other calls meanwhile
                self.session.stat("nothing")
            self.assertEqual(await group.readinto(file, memory, 5, 3), 3)
            memory.close()
            self.assertEqual(await group.read(file, 10, 1 << 40), b"")
        self.run_in_group(check)

    def test_error_of_one_does_not_end_another(self):
        file, constant = self.make("file", b"x" * 100), self.session.open("file")
        self.addCleanup(constant.close)

        async def check(group):
            results = await asyncio.gather(group.read(file, 100, 0), group.write(constant, b"y", 0), return_exceptions=True)
            self.assertEqual(results[0], b"x" * 100)
            self.assertIsInstance(results[1], dafs.Error)
            self.assertIn(":/data: write 1 at 0 of file: ", results[1].strerror)
        self.run_in_group(check)

    def test_cancelled_coroutine_ends_and_others_go_on(self):
        file = self.make("file", b"z" * 100_000)

        async def check(group):
            tasks = [asyncio.create_task(group.read(file, 100_000, 0)) for _ in range(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for index, result in enumerate(results):
                if index % 2 == 1:
                    self.assertEqual(result, b"z" * 100_000)
                else:
                    self.assertIsInstance(result, asyncio.CancelledError)
            await group.read(file, 1, 0)
            while group._waiting:  # what was cancelled ends by itself
                await asyncio.sleep(0.01)
        self.run_in_group(check)


if __name__ == "__main__":
    unittest.main()
