"""A peer with no code in common with ours: listings, links' contents and hints."""

import os
import struct

from findings import Findings, expecter, in_every_form, root_peer
from layout import ALL_FATTR, BIT, ZERO8, attributes, buffers, fletcher, read_entries
from peer import Request
from rig import scenario


@scenario(timeout=120, where="server", loopback=True)
def peer_listings(rig):
    """READDIR inline and direct with buffers of every size, cookies and verifiers, every attribute; READLINK.
    Shows DAFS-6.5.29-01, DAFS-6.5.29-03, DAFS-6.5.29-04, DAFS-6.5.29-05, DAFS-6.5.29-06, DAFS-6.5.29-07,
    DAFS-6.5.29-12, DAFS-6.5.29-14, DAFS-6.5.30-01, DAFS-6.5.31-01, DAFS-6.5.32-01, DAFS-6.5.6-01."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    here = rig.export / "many"
    here.mkdir()
    names = sorted({f"{'n' * (index % 60)}{index}" for index in range(300)})
    for name in names:
        (here / name).touch()
    (rig.export / "none").mkdir()
    os.symlink("target of the link", rig.export / "link")
    for options in in_every_form():
        order = options["order"]
        peer, data = root_peer(server.port, **options)
        expect = expecter(peer, findings, str(options))
        many, none, link = peer.walk("data", "many"), peer.walk("data", "none"), peer.walk("data", "link")

        def inline(**how):
            response = peer.call(peer.readdir(many, **how))
            if response.status != "OK":
                return response.status, None, None, None
            where = response.get("I", 12)
            entries = read_entries(order, response.body, where) if where else []
            return response.status, entries, response.get("I", 8), response.raw(0, 8)

        def direct(maxcount, room, cuts=1, **how):
            stag = peer.register(b"\xee" * room)
            step = room // cuts
            segments = [peer.segment(stag, index * step, step if index < cuts - 1 else room - index * step)
                        for index in range(cuts)]
            response = peer.call(peer.readdir(many, maxcount=maxcount, segments=segments, **how))
            if response.status != "OK":
                return response.status, None, None, None
            memory = peer.memory(stag)
            findings.equal(bytes(memory[maxcount:]), b"\xee" * max(0, room - maxcount), "memory after maxcount")
            if peer.checksums:
                # The last item is the name of the last entry.
                count, = struct.unpack_from(order + "I", memory)
                name, = struct.unpack_from(order + "I", memory, 8 + 16 * (count - 1) + 12)
                extent = name + 4 + struct.unpack_from(order + "I", memory, name)[0]
                findings.check(extent <= maxcount, f"extent {extent} of {maxcount}")
                findings.equal(response.raw(12, 4), fletcher(order, memory[:extent]),
                               "direct_checksum of READDIR_DIRECT")
            return response.status, read_entries(order, memory, 0), response.get("I", 8), response.raw(0, 8)

        ways = (lambda **how: inline(maxcount=200, **how), lambda **how: inline(maxcount=1 << 20, **how),
                lambda **how: inline(maxcount=1 << 20, dircount=40, **how), lambda **how: direct(200, 300, **how),
                lambda **how: direct(3000, 3000, 7, **how), lambda **how: direct(2**32 - 1, 50_000, 50, **how))
        for bits in (0, BIT["OBJECT_TYPE"], 2**64 - 1):
            for number, way in enumerate(ways):
                if number in (0, 3) and bits == 2**64 - 1:
                    continue  # 200 bytes are too few
                cookie, verifier, seen, rounds = 0, ZERO8, [], 0
                while rounds < 1000:
                    status, entries, eof, verifier = way(cookie=cookie, verifier=verifier, bits=bits)
                    if status != "OK":
                        findings.check(False,
                                       f"{options} way {number} bits {bits:#x}: {status} after {len(seen)} names")
                        break
                    for entry in entries:
                        seen.append(entry[1].decode())
                        if bits >> 63 and "FILEHANDLE" not in entry[2] or bits == 16 and entry[2] != {"OBJECT_TYPE": 1}:
                            findings.check(False, f"way {number}: attributes of {entry}")
                    rounds += 1
                    if eof:
                        break
                    findings.check(bool(entries), f"way {number}: no entry and no eof")
                    cookie = entries[-1][0]
                    if number == 2 and rounds % 2:  # from inline to direct and back
                        status, entries, eof, verifier = direct(500, 500, cookie=cookie, verifier=verifier,
                                                                bits=bits & 16)
                        seen += [entry[1].decode() for entry in entries]
                        if eof:
                            break
                        cookie = entries[-1][0]
                findings.equal(sorted(seen), names, f"{options} way {number}, bits {bits:#x}: names")
        for size in (0, 4, 8, 16, 24, 30):
            findings.equal(inline(maxcount=size)[0], "READDIR_NOSPC", f"{options} maxcount {size}")
            findings.equal(direct(size, 100)[0], "READDIR_NOSPC", f"{options} direct maxcount {size}")
            findings.equal(direct(100, size or 1)[0], "READDIR_NOSPC", f"{options} direct, {size} bytes of buffers")
        _, entries, _, verifier = inline(maxcount=500)
        for cookie, given in ((1, verifier), (2, verifier), (entries[0][0], b"\xff" * 8)):
            findings.equal(inline(cookie=cookie, verifier=given)[0], "BAD_COOKIE", f"{options} cookie {cookie}")
        expect(peer.readdir(many, segments=[]), "INVAL", "no buffers")
        expect(Request("READDIR_DIRECT", peer.layout(104).put(0, "raw", many).put(84, "I", 99).bytes), "INVAL",
               "no buffers")
        # The attributes of an entry are those of the object.
        response = peer.must(peer.readdir(data, bits=ALL_FATTR))
        everything = {entry[1]: entry[2] for entry in read_entries(order, response.body, response.get("I", 12))}
        for name in (b"link", b"none"):
            own = peer.must(peer.getattr(peer.walk("data", name.decode()))).attributes()[2]
            for each in own:
                findings.check(each in ("TIME_ACCESS", "CHANGE") or everything[name].get(each) == own[each],
                               f"{each} of {name} in READDIR: {everything[name].get(each)}, {own[each]}")
        # An empty directory, in either form; "." and ".." are not listed.
        response = expect(peer.readdir(none), "OK")
        findings.equal(response.get("II", 8), (1, 0), "an empty directory")
        response = expect(peer.readdir(none, maxcount=0), "OK")
        stag = peer.register(b"\xee" * 64)
        response = expect(peer.readdir(none, segments=[peer.segment(stag)]), "OK")
        findings.equal(bytes(peer.memory(stag)), bytes(8) + b"\xee" * 56, "an empty directory, direct")
        # READLINK.
        findings.equal(expect(peer.handle_only("READLINK_INLINE", link), "OK").string(0), b"target of the link",
                       "READLINK")
        stag = peer.register(b"\xee" * 64)
        response = expect(peer.one_buffer("READLINK_DIRECT", link, peer.segment(stag)), "OK")
        wanted = struct.pack(order + "I", 18) + b"target of the link"
        findings.equal(bytes(peer.memory(stag)), wanted + b"\xee" * 42, "READLINK_DIRECT")
        findings.equal(response.raw(0, 4), fletcher(order, wanted) if peer.checksums else bytes(4), "its checksum")
        expect(peer.one_buffer("READLINK_DIRECT", link, peer.segment(stag, 0, 21)), "TOOSMALL", "21 bytes")
        expect(peer.one_buffer("READLINK_DIRECT", link, peer.segment(stag, 0, 22)), "OK", "22 bytes")
        # CACHE_HINT.
        hint = peer.layout(88).put(0, "raw", many)
        for pattern_, cache, status in ((0, 0, "OK"), (4, 0x7E, "OK"), (5, 0, "INVAL"), (2**32 - 1, 0, "INVAL"),
                                        (0, 0xFFFFFFF0, "OK")):
            expect(Request("CACHE_HINT", hint.put(76, "I", pattern_).put(80, "I", cache).bytes), status,
                   f"{pattern_} {cache:#x}")
        found = peer.call(Request("CACHE_HINT", hint.put(76, "I", 0).put(80, "I", 0x0F).bytes)).status
        findings.check(found in ("OK", "PREFETCH_NOT_SUPPORTED"), f"prefetch: {found}")
        peer.close()
    findings.finish()
