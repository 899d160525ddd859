"""A peer with no code in common with ours: named attributes (4.1.5)."""

import errno
import os

import pytest

from findings import Findings, expecter, in_every_form, root_peer
from layout import BIT, FH, STATEID, read_entries
from rig import errno_of, scenario


@scenario(timeout=60, where="server", loopback=True)
def peer_named(rig):
    """Named attributes: made, listed, read, written, removed, by their own handles and in chains.
    Shows DAFS-4.1.5-01, DAFS-4.1.5-02, DAFS-6.5.25-01, DAFS-6.5.25-02, DAFS-6.5.22-01, DAFS-6.5.9-10
    (attribute directory and named attribute)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    (rig.export / "file").write_bytes(b"x")
    for options in in_every_form():
        peer, data = root_peer(server.port, **options)
        expect = expecter(peer, findings, str(options))
        file = peer.walk("data", "file")
        response = peer.call(peer.handle_only("OPENATTR", file))
        if response.status == "NOTSUPP":
            pytest.skip("the file system of the export has no extended attributes")
        findings.equal(response.status, "OK", "OPENATTR")
        directory = response.raw(0, 64)
        found = peer.must(peer.getattr(directory)).attributes()[2]
        findings.equal((found["OBJECT_TYPE"], found["FILEHANDLE"]), (8, directory), "the attribute directory")
        findings.equal(peer.must(peer.handle_only("LOOKUPP", directory)).raw(0, 64), file, "its parent")
        expect(peer.lookup(directory, ["color"]), "NOENT")
        expect(peer.open(directory, ["color"]), "NOENT")
        opened = expect(peer.open(directory, ["color"], 0), "OK", "create")
        handle, state = opened.raw(0, 64), opened.raw(64, 8)
        expect(peer.write(handle, 0, b"dark ", state), "OK")
        expect(peer.write(handle, 5, b"green", state), "OK")
        expect(peer.close_file(handle, state), "OK")
        found = peer.must(peer.getattr(handle)).attributes()[2]
        findings.equal((found["OBJECT_TYPE"], found["OBJECT_SIZE"]), (9, 10), "the attribute")
        response = expect(peer.read(handle, 0, 100), "OK")
        findings.equal((response.get("II", 0), response.raw(8, 10)), ((1, 10), b"dark green"), "its value")
        stag = peer.register(20)
        response = expect(peer.read_direct(handle, 5, 20, [peer.segment(stag)]), "OK")
        findings.equal(bytes(peer.memory(stag)[:5]), b"green", "its value by RDMA")
        response = expect(peer.readdir(directory, bits=BIT["OBJECT_TYPE"] | BIT["FILEHANDLE"]), "OK")
        entries = {name: values for _, name, values in read_entries(peer.order, response.body, response.get("I", 12))}
        findings.equal(entries.get(b"color"), {"OBJECT_TYPE": 9, "FILEHANDLE": handle}, "its entry")
        chain = [peer.handle_only("OPENATTR", file), peer.open(names=["size"], create=0, flags=FH),
                 peer.write(data=b"small", flags=FH | STATEID), peer.close_file(flags=FH | STATEID)]
        findings.equal([r.status for r in peer.chain(chain)], ["OK"] * 4, "one made in a chain")
        chain = [peer.handle_only("OPENATTR", file), peer.lookup(names=["size"], flags=FH),
                 peer.read(count=9, flags=FH)]
        findings.equal(peer.chain(chain)[2].raw(8, 5), b"small", "one read in a chain")
        for request in (peer.open(directory, ["size"], 1), peer.open(directory, ["color"], 1)):
            expect(request, "EXIST", "GUARDED")
        for bad in ("", b"a/b", b"a\0b", b"\xff"):
            expect(peer.lookup(directory, [bad]), "INVAL", repr(bad))
            expect(peer.open(directory, [bad], 0), "INVAL", repr(bad))
            expect(peer.remove(directory, bad), "INVAL", repr(bad))
        for name in ("color", "size"):
            expect(peer.remove(directory, name), "OK")
            expect(peer.remove(directory, name), "NOENT")
        expect(peer.getattr(handle, 16), "STALE", "after REMOVE")
        for request in (peer.create(directory, "sub"), peer.link(file, directory, "x"),
                        peer.rename(directory, "a", data, "b"),
                        peer.rename(data, "file", directory, "b"), peer.handle_only("OPENATTR", directory),
                        peer.readdir(handle), peer.handle_only("READLINK_INLINE", handle)):
            found = peer.call(request).status
            findings.check(found not in ("OK", "SERVERFAULT"), f"{request.name} with a named attribute: {found}")
        peer.close()
    # A mount shows attributes without a name space of Linux under the user name space.
    peer, data = root_peer(server.port)
    directory = peer.must(peer.handle_only("OPENATTR", peer.walk("data", "file"))).raw(0, 64)
    opened = peer.must(peer.open(directory, ["color"], 0))
    peer.chain([peer.write(opened.raw(0, 64), 0, b"green", opened.raw(64, 8)), peer.close_file(*_open_of(opened))])
    rig.mount(server)
    path = rig.mnt / "file"
    findings.equal((os.listxattr(path), os.getxattr(path, "user.dafs.color")), (["user.dafs.color"], b"green"),
                   "on a mount")
    findings.equal(os.listxattr(rig.export / "file"), ["user.dafs.color"], "on the server")
    os.setxattr(path, "user.dafs.size", b"small")
    found = peer.must(peer.lookup(directory, ["size"])).raw(0, 64)
    findings.equal(peer.must(peer.read(found, 0, 9)).raw(8, 5), b"small", "what the mount has set")
    os.removexattr(path, "user.dafs.color")
    findings.equal(peer.call(peer.lookup(directory, ["color"])).status, "NOENT", "what the mount has removed")
    findings.equal(errno_of(os.setxattr, path, "color", b"x"), errno.EOPNOTSUPP,
                   "a name without a name space on a mount")
    peer.close()
    findings.finish()


def _open_of(response):
    return response.raw(0, 64), response.raw(64, 8)
