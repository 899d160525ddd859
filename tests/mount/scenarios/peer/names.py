"""A peer with no code in common with ours: names and handles."""

import os
import struct

from findings import Findings, expecter, root_peer
from layout import BIT, FSATTR, ZERO64, pathname
from peer import Request
from rig import scenario


LONG = "n" * 256  # more than any file system here takes
FILE_BITS = sum(BIT[name] for name in ("OBJECT_TYPE", "CHANGE", "OBJECT_SIZE", "FILE_ID", "FILEHANDLE"))


@scenario(timeout=60, where="server", loopback=True)
def peer_names(rig):
    """Names good and bad in every procedure that takes one, handles of every wrong kind.
    Shows DAFS-6.1.1.6-01, DAFS-6.5.21-03, DAFS-6.5.21-04, DAFS-6.5.21-05, DAFS-6.5.21-10, DAFS-6.5.21-12,
    DAFS-6.5.24-23, DAFS-6.5.24-27, DAFS-6.5.24-28, DAFS-6.5.24-32, DAFS-6.5.9-03, DAFS-6.5.9-04, DAFS-6.5.9-05,
    DAFS-6.5.9-08, DAFS-6.5.17-04, DAFS-6.5.33-02, DAFS-6.5.33-03, DAFS-6.5.34-03, DAFS-6.5.34-06, DAFS-6.5.22-02,
    DAFS-6.5.22-04, DAFS-6.5.31-02, DAFS-6.5.29-15, DAFS-6.5.9-10, DAFS-4.1.4-25."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order in "<>":
        here = rig.export / f"names{ord(order)}"
        here.mkdir()
        (here / "sub").mkdir()
        (here / "sub" / "inner").mkdir()
        (here / "file").write_bytes(b"x")
        (here / "other").write_bytes(b"y")
        os.symlink("file", here / "link")
        os.mkfifo(here / "fifo")
        peer, data = root_peer(server.port, order)
        expect = expecter(peer, findings, order)
        directory = peer.walk("data", here.name)
        file, link, fifo = (peer.walk("data", here.name, name) for name in ("file", "link", "fifo"))

        def with_name(name):
            """A request of every procedure that takes a name."""
            yield "LOOKUP", peer.lookup(directory, [name])
            yield "LOOKUP deep", peer.lookup(directory, ["sub", name, "x"])
            yield "OPEN", peer.open(directory, [name])
            yield "OPEN create", peer.open(directory, [name], 1, mode=0o600)
            yield "CREATE", peer.create(directory, name)
            yield "LINK", peer.link(file, directory, name)
            yield "REMOVE", peer.remove(directory, name)
            yield "RENAME old", peer.rename(directory, name, directory, "renamed")
            yield "RENAME new", peer.rename(directory, "file", directory, name)

        def names(name, status, but=None):
            for what, request in with_name(name):
                wanted = (but or {}).get(what, status)
                response = expect(request, wanted, f"{what} {name!r:.40}")
                if what == "LOOKUP deep" and wanted not in ("INVAL", "OK"):
                    count = response.get("I", 64)
                    findings.check(count in (0, 1), f"{what} {name!r:.20}: component_count {count}")

        for bad in ("", b"a/b", b"/", b"a\0b", b"\0", b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf",
                    b"\xf4\x90\x80\x80", b"ok\x80"):
            names(bad, "INVAL")
        for dots in (".", ".."):
            names(dots, "INVAL", {"LOOKUP": "NOENT", "LOOKUP deep": "NOENT", "OPEN": "NOENT"})
        names(LONG, "NAMETOOLONG")
        names("n" * 1024, "NAMETOOLONG")
        names("n" * 1025, "NAMETOOLONG")
        for strange in ("grüße ☃ \U0001F600", "-rf", "a\\b", "new\nline", "\x01\x7f", "...", " "):
            for what, request in with_name(strange):
                status = peer.call(request).status
                wanted = {"LOOKUP": "NOENT", "LOOKUP deep": "NOENT", "OPEN": "NOENT", "OPEN create": "OK",
                          "CREATE": "EXIST",
                          "LINK": "EXIST", "REMOVE": "OK", "RENAME old": "NOENT", "RENAME new": "OK"}[what]
                findings.equal(status, wanted, f"{order} {what} {strange!r}")
            os.rename(here / strange, here / "file")

        # Paths: how far they led.
        def resolved(request, status, count, handle):
            response = expect(request, status, f"{count} components")
            at = 64 if request.name == "LOOKUP" else 96
            findings.equal((response.get("I", at), response.raw(0, 64)), (count, handle),
                           f"{order} {request.name} partial")

        sub = peer.walk("data", here.name, "sub")
        for make in (lambda names: peer.lookup(directory, names), lambda names: peer.open(directory, names)):
            resolved(make(["no", "x"]), "NOENT", 0, ZERO64)
            resolved(make(["sub", "no", "x"]), "NOENT", 1, sub)
            resolved(make(["sub", "inner", "no"]), "NOENT", 2, peer.walk("data", here.name, "sub", "inner"))
            resolved(make(["sub", LONG, "x"]), "NAMETOOLONG", 1, sub)
            resolved(make(["file", "x"]), "NOTDIR", 1, file)
        resolved(peer.lookup(directory, ["link", "x"]), "SYMLINK", 1, link)
        resolved(peer.open(directory, ["link", "x"]), "NOTDIR", 1, link)
        resolved(peer.open(directory, ["sub", "inner"]), "ISDIR", 1, sub)
        resolved(peer.open(directory, ["link"]), "SYMLINK", 0, ZERO64)
        expect(peer.lookup(directory, []), "INVAL", "an empty path")
        expect(peer.lookup(directory, None), "INVAL", "no path")
        expect(peer.open(directory, []), "INVAL", "an empty path")
        expect(peer.open(directory, None), "INVAL", "no path")
        expect(peer.lookup(link, ["x"]), "SYMLINK", "from a link")
        expect(peer.lookup(file, ["x"]), "NOTDIR", "from a file")
        expect(peer.lookup(directory, ["sub"] + ["x"] * 1024), "INVAL", "1025 components")
        expect(peer.lookup(directory, ["n" * 1025, "x"]), "NAMETOOLONG", "1025 bytes")
        response = expect(peer.lookup(directory, ["sub", "inner"]), "OK")
        findings.equal(response.get("I", 64), 2, "component_count")

        # A wrong component count, and one that points outside the message.
        for count in (3, 1025, 2**32 - 1):
            item = bytearray(pathname(order, ["sub", "inner"]))
            item[:4] = struct.pack(order + "I", count)
            body = peer.layout(72).put(0, "raw", directory).item(64, bytes(item))
            expect(Request("LOOKUP", body.bytes), "INVAL", f"count {count}")
        for offset in (8, 64, 68, 71, 73, 4096, 2**32 - 8, 2**31):
            body = peer.layout(72).put(0, "raw", directory).item(64, pathname(order, ["sub"])).put(64, "I", offset)
            expect(Request("LOOKUP", body.bytes), "INVAL", f"offset {offset}")
        # An explicit empty item, items in any order, gaps: all are good.
        body = peer.layout(72).put(0, "raw", directory)
        body.bytes += b"junk" * 6
        expect(Request("LOOKUP", body.item(64, pathname(order, ["sub"])).bytes), "OK", "a gap before the item")
        body = peer.layout(136).put(0, "raw", directory).put(64, "raw", directory)
        body.item(132, struct.pack(order + "I", 5) + b"moved").item(128, struct.pack(order + "I", 5) + b"other")
        expect(Request("RENAME", body.bytes), "OK", "items in the other order")
        expect(peer.rename(directory, "moved", directory, "other"), "OK")

        # Handles: none, forged, of another type, of removed files.
        forged = bytearray(file)
        forged[40] ^= 1
        gone = peer.must(peer.create(directory, "gone")).raw(0, 64)
        os.rmdir(here / "gone")
        expire = peer.must(peer.fsattr(directory)).attributes(0, FSATTR)[2].get("FH_EXPIRE_TYPE", 0)
        findings.equal(expire, 0, f"{order} handles are persistent")
        for handle, status in ((ZERO64, "BADHANDLE"), (b"\xff" * 64, "BADHANDLE"), (bytes(forged), "BADHANDLE"),
                               (bytes(16) + file[16:], "BADHANDLE"), (gone, "STALE")):
            said = "zero" if handle == ZERO64 else "gone" if handle == gone else "forged"
            for request in (peer.getattr(handle, FILE_BITS), peer.getattr(handle, 0), peer.access(handle),
                            peer.commit(handle),
                            peer.create(handle), peer.link(handle, directory), peer.link(file, handle),
                            peer.fsattr(handle),
                            peer.lookup(handle, ["x"]), peer.handle_only("LOOKUPP", handle), peer.lockt(handle),
                            peer.handle_only("OPENATTR", handle), peer.open(handle, ["x"]),
                            peer.open(handle, ["x"], 0, mode=0o600),
                            peer.read(handle, 0, 1), peer.write(handle, 0, b"x"), peer.append(handle, b"x"),
                            peer.readdir(handle), peer.handle_only("READLINK_INLINE", handle), peer.remove(handle),
                            peer.rename(handle, "a", directory, "b"), peer.rename(directory, "other", handle, "b"),
                            peer.setattr(handle, {"MODE": 0o600}), peer.verify(handle, {"OBJECT_TYPE": 1}),
                            peer.verify(handle, {"OBJECT_TYPE": 1}, name="NVERIFY"), peer.open(handle, claim=1),
                            peer.open(handle, create=0, mode=0o600, claim=4),
                            Request("CACHE_HINT", peer.layout(88).put(0, "raw", handle).bytes)):
                expect(request, status, f"{said} handle")
        # The wrong type.
        for request, status in ((peer.create(file), "NOTDIR"), (peer.open(file, ["x"]), "NOTDIR"),
                                (peer.open(file, ["x"], 0, mode=0o600), "NOTDIR"), (peer.remove(file), "NOTDIR"),
                                (peer.link(file, file), "NOTDIR"), (peer.link(directory, directory), "ISDIR"),
                                (peer.rename(file, "a", directory, "b"), "NOTDIR"), (peer.readdir(file), "NOTDIR"),
                                (peer.rename(directory, "other", file, "b"), "NOTDIR"), (peer.readdir(link), "NOTDIR"),
                                (peer.handle_only("LOOKUPP", file), "NOTDIR"),
                                (peer.handle_only("READLINK_INLINE", file), "INVAL"),
                                (peer.handle_only("READLINK_INLINE", directory), "INVAL"),
                                (peer.commit(directory), "ISDIR"), (peer.open(directory, ["sub"]), "ISDIR"),
                                (peer.lockt(directory), "ISDIR"),
                                (peer.open(directory, ["sub"], 0, mode=0o600), "ISDIR"),
                                (peer.open(directory, ["sub"], 1, mode=0o600), "EXIST"),
                                (peer.open(directory, ["sub"], 2), "EXIST"),
                                (peer.open(file, create=0, mode=0o600, claim=4), "NOTDIR"),
                                (peer.handle_only("LOOKUPP", peer.root()), "NOENT")):
            expect(request, status, "the wrong type")
        for request in (peer.read(directory, 0, 1), peer.write(directory, 0, b"x"), peer.append(directory, b"x"),
                        peer.read(fifo, 0, 1), peer.read(link, 0, 1)):
            expect(request, "INVAL", "no regular file")
        # CREATE of every type.
        for kind, more, status in ((0, {}, "BADTYPE"), (1, {}, "BADTYPE"), (8, {}, "BADTYPE"), (9, {}, "BADTYPE"),
                                   (10, {}, "BADTYPE"), (2**32 - 1, {}, "BADTYPE"), (2, {}, "OK"),
                                   (3, {"device": (7, 8)}, "OK"),
                                   (4, {"device": (1, 3)}, "OK"), (5, {"link": "to"}, "OK"), (6, {}, "OK"),
                                   (7, {}, "OK"),
                                   (5, {}, "INVAL"), (5, {"link": ""}, "INVAL"), (5, {"link": b"\xff/bytes"}, "OK"),
                                   (5, {"link": b"a" * 4095}, "OK"), (5, {"link": b"a" * 5000}, "NAMETOOLONG"),
                                   (2, {"attrs": {"MODE": 0o750}}, "OK"), (2, {"attrs": {}}, "OK"),
                                   (7, {"attrs": {"MODE": 0o750}}, "INVAL"),
                                   (5, {"link": "x", "attrs": {"MODE": 0o700}}, "INVAL"),
                                   (6, {"attrs": {}}, "OK"), (2, {"attrs": {"OBJECT_TYPE": 2}}, "INVAL")):
            response = expect(peer.create(directory, "made", kind, **more), status, f"type {kind} {more}"[:60])
            if status == "OK":
                findings.equal(peer.must(peer.getattr(response.raw(0, 64), 0x10)).attributes()[2],
                               {"OBJECT_TYPE": kind}, "type")
                expect(peer.create(directory, "made", kind, **more), "EXIST", "again")
                expect(peer.remove(directory, "made"), "OK")
        # REMOVE, RENAME and LINK between each pair of types.
        expect(peer.remove(directory, "sub"), "NOTEMPTY")
        expect(peer.remove(directory, "never"), "NOENT")
        expect(peer.rename(directory, "never", directory, "x"), "NOENT")
        expect(peer.rename(directory, "file", directory, "sub"), "EXIST")
        expect(peer.rename(directory, "sub", directory, "file"), "EXIST")
        expect(peer.rename(directory, "sub", sub, "inside"), "INVAL")
        expect(peer.rename(directory, "file", directory, "file"), "OK")
        expect(peer.create(directory, "empty"), "OK")
        expect(peer.rename(directory, "empty", directory, "sub"), "EXIST", "onto a directory that is not empty")
        expect(peer.create(directory, "empty2"), "OK")
        expect(peer.rename(directory, "empty", directory, "empty2"), "OK")
        expect(peer.remove(directory, "empty2"), "OK")
        expect(peer.remove(directory, "file", 7), "INVAL", "an unknown remove_mode")
        expect(peer.link(file, directory, "other"), "EXIST")
        for request in (peer.create(peer.root()), peer.link(file, peer.root()), peer.remove(peer.root(), "data"),
                        peer.rename(directory, "file", peer.root(), "x"), peer.open(peer.root(), ["x"], 0, mode=0o600)):
            expect(request, "ROFS", "the pseudo root")
        # Change information agrees with the CHANGE attribute before and after.
        def change():
            return peer.must(peer.getattr(directory, BIT["CHANGE"])).attributes()[2]["CHANGE"]
        for request, at in ((peer.create(directory, "c1"), 64), (peer.link(file, directory, "c2"), 0),
                            (peer.remove(directory, "c2"), 0),
                            (peer.rename(directory, "c1", directory, "c3"), 24), (peer.remove(directory, "c3"), 0),
                            (peer.open(directory, ["c4"], 0, mode=0o600), 72),
                            (peer.open(directory, ["c4"], 0, mode=0o600), 72),
                            (peer.open(directory, ["c4"]), 72), (peer.open(directory, ["c5"], 2), 72),
                            (peer.open(directory, ["c4"], 0, attrs={"OBJECT_SIZE": 0}), 72)):
            before = change()
            found = peer.must(request).get("QQI", at)
            findings.equal(found[0], before, f"{order} {request.name}: before")
            findings.equal(found[1], change(), f"{order} {request.name}: after")
        before = change()
        for request in (peer.open(directory, ["c4"], 0, mode=0o600), peer.open(directory, ["c4"]),
                        peer.open(directory, ["c4"], 0, attrs={"OBJECT_SIZE": 0})):
            peer.must(request)
            findings.equal(change(), before, f"{order}: CHANGE of the directory after OPEN of a file that exists")
        peer.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_atomic(rig):
    """A name that is being replaced is always there, and leads to one of the two files. Shows DAFS-6.5.34-01."""
    server, findings = rig.serve(), Findings()
    peer, data = root_peer(server.port)
    mate, _ = root_peer(server.port, ">", name="mate")
    (rig.export / "name").write_bytes(b"first")
    rounds, statuses, sizes = 300, [], set()
    for number in range(rounds):
        for stream in range(mate.granted - 1):
            mate.submit(mate.lookup(data, ["name"]), stream=stream)
        (rig.export / f"next{number}").write_bytes(b"second")
        peer.must(peer.rename(data, f"next{number}", data, "name"))
        for _ in range(mate.granted - 1):
            response = mate.result()
            statuses.append(response.status)
        found = mate.call(mate.getattr(response.raw(0, 64), BIT["OBJECT_SIZE"]), stream=mate.granted - 1)
        sizes.add(found.attributes()[2]["OBJECT_SIZE"] if found.status == "OK" else found.status)
    findings.equal(set(statuses), {"OK"}, "LOOKUP of a name that is being replaced")
    findings.check(sizes <= {5, 6, "STALE"}, f"sizes seen: {sizes}")
    peer.close()
    mate.close()
    findings.finish()
