"""A peer with no code in common with ours: reads, writes, appends and batches."""

import struct

from findings import Findings, expecter, in_every_form, root_peer
from layout import FSATTR, ZERO8, ZERO64, buffers, fletcher
from peer import Request
from rig import scenario


TOP = 2**64 - 1


def pattern(size, seed=0):
    return bytes((index * 131 + index // 253 + seed) % 256 for index in range(size))


@scenario(timeout=120, where="server", loopback=True)
def peer_reads(rig):
    """READ inline and direct: every size, segments of every shape, the end of the file.
    Shows DAFS-3.2.3.2.2-01, DAFS-6.5.27-01, DAFS-6.5.27-03, DAFS-6.5.28-01, DAFS-3.2.6.4.1-02 (READ_INLINE)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    content = pattern(100_003)
    (rig.export / "file").write_bytes(content)
    (rig.export / "empty").write_bytes(b"")
    for options in in_every_form():
        order = options["order"]
        for size in (0, 1024):
            peer, data = root_peer(server.port, request_size=size, response_size=size, requests=1, **options)
            expect = expecter(peer, findings, str(options))
            file, empty = peer.walk("data", "file"), peer.walk("data", "empty")
            _, state = peer.opened(data, "file", None)
            most = peer.limits["response_size"] - 48
            for offset, count in ((0, 0), (0, 1), (3, 7), (0, most), (0, most + 1), (5, 2**32 - 1), (100_002, 1),
                                  (100_002, 2),
                                  (100_003, 0), (100_003, 1), (100_004, 5), (2**63 - 1, 9), (2**63, 9),
                                  (TOP, 2**32 - 1)):
                for used in (ZERO8, state):
                    response = expect(peer.read(file, offset, count, used), "OK", f"{offset} {count}")
                    eof, got = response.get("II", 0)
                    findings.check(got <= min(count, most), f"READ {offset} {count}: {got} bytes")
                    findings.equal(response.raw(8, got), content[offset:offset + got], f"READ {offset} {count}")
                    findings.equal(eof, int(offset + got >= len(content)), f"eof of READ {offset} {count}, {got} bytes")
                    findings.equal(len(response.message), 48 + got + -got % 8, "response_len")
                    findings.check(got > 0 or count == 0 or offset >= len(content), f"READ {offset} {count}: nothing")
            findings.equal(peer.must(peer.read(empty, 0, 0)).get("II", 0), (1, 0), "READ of an empty file")
            # Direct, in segments.
            total = 5000
            for cuts in ((5000,), (1, 4999), (4999, 1), (1,) * 40 + (4960,), (0, 100, 0, 4900, 0), (8192,),
                         tuple([20] * 250)):
                if 40 + 96 + 8 + 16 * len(cuts) > peer.limits["request_size"]:
                    continue
                stag = peer.register(b"\xee" * (sum(cuts) + 2 * len(cuts)))
                segments, at = [], 1
                for cut in cuts:
                    segments.append(peer.segment(stag, at, cut))
                    at += cut + 2
                response = expect(peer.read_direct(file, 17, total, segments, state), "OK", f"{len(cuts)} segments")
                findings.equal(response.get("II", 0), (0, total), f"READ_DIRECT {cuts[:4]}")
                memory, found, at, left = peer.memory(stag), b"", 1, total
                for cut in cuts:
                    found += bytes(memory[at:at + min(cut, left)])
                    left -= min(cut, left)
                    findings.equal(memory[at - 1], 0xEE, "a byte between the segments")
                    at += cut + 2
                findings.equal(found, content[17:17 + total], f"data of READ_DIRECT {cuts[:4]}")
                if peer.checksums:
                    findings.equal(response.raw(8, 4), fletcher(order, found), "direct_checksum")
                else:
                    findings.equal(response.raw(8, 4), bytes(4), "no direct_checksum")
            stag = peer.register(b"\xee" * 100)
            response = expect(peer.read_direct(file, 100_000, 100, [peer.segment(stag)], state), "OK", "over the end")
            findings.equal((response.get("II", 0), bytes(peer.memory(stag))), ((1, 3), content[-3:] + b"\xee" * 97),
                           "over the end")
            for offset in (100_003, 2**63, TOP):
                response = expect(peer.read_direct(file, offset, 100, [peer.segment(stag)], state), "OK", f"{offset}")
                findings.equal(response.get("II", 0), (1, 0), f"READ_DIRECT at {offset}")
            findings.equal(peer.must(peer.read_direct(file, 0, 0, [], state)).get("II", 0), (0, 0),
                           "READ_DIRECT of nothing")
            expect(peer.read_direct(file, 0, 1, [], state), "INVAL", "no buffers")
            expect(peer.read_direct(file, 0, 101, [peer.segment(stag)], state), "INVAL", "buffers too small")
            if size == 0:
                expect(peer.read_direct(file, 0, 1, [peer.segment(stag, 0, 1)] * 257, state), "INVAL", "257 buffers")
                expect(peer.read_direct(file, 0, 100,
                                        [peer.segment(stag, n, 1) for n in range(100)] + [peer.segment(stag)] * 156,
                                        state), "OK", "256 buffers")
                findings.equal(bytes(peer.memory(stag)), content[:100], "data in 256 buffers")
            huge = [(0x7F0000001000, 2**32 - 1, stag)] * 3
            response = expect(peer.read_direct(file, 100_000, 2**32 - 1, huge, state), "OK", "buffers of 4 GiB each")
            findings.equal(response.get("II", 0), (1, 3), "read into buffers of 4 GiB")
            peer.close()
        # A wrong key or bound is the client's own fault, detected by its own adapter. Here the peer detects it and
        # closes.
        peer, data = root_peer(server.port, **options)
        peer.submit(peer.read_direct(peer.walk("data", "file"), 0, 10, [(0, 10, 0xDEAD)]))
        try:
            peer.result()
            findings.check(False, "an answer although the RDMA write went nowhere")
        except (KeyError, ValueError):
            pass
        peer.close()
        peer, _ = root_peer(server.port, **options)
        peer.close()
    findings.finish()


@scenario(timeout=120, where="server", loopback=True)
def peer_writes(rig):
    """WRITE and APPEND inline and direct, padded and not, every stability, COMMIT and verifiers.
    Shows DAFS-3.2.3.2.1-01, DAFS-6.5.38-15, DAFS-6.5.39-01, DAFS-6.5.8-03, DAFS-6.5.3-04, DAFS-6.5.4-01, DAFS-6.1.6-14,
    DAFS-3.1.2.2-08 (where the data is expected), DAFS-6.5.38-09 (one instance)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for options in in_every_form():
        order = options["order"]
        for header_size, size in ((0, 0), (136, 1024), (1000, 1024), (4096, 8192)):
            peer, data = root_peer(server.port, request_size=size, header_size=header_size, **options)
            expect = expecter(peer, findings, str(options))
            name = f"w{ord(order)}{options['checksums']}{options['flags']}{header_size}"
            handle, state = peer.opened(data, name)
            path = rig.export / name
            limit = peer.limits["request_size"]
            verifiers = set()
            for count in (0, 1, 7, 8, limit - 136):
                for stable in (0, 1, 2):
                    block = pattern(count, stable)
                    response = expect(peer.write(handle, 3, block, state, stable), "OK",
                                      f"{count} bytes, stable {stable}")
                    written, committed = response.get("II", 0)
                    findings.check(written == count and committed in range(stable, 3),
                                   f"WRITE {count}: {written} {committed}")
                    verifiers.add(response.raw(8, 8))
                    findings.equal(path.read_bytes()[3:3 + count], block, f"WRITE {count}")
            granted = peer.limits["header_size"]
            if granted:
                block = pattern(limit - granted, 9)
                expect(peer.write(handle, 0, block, state, padded=True), "OK", "padded")
                findings.equal(path.read_bytes()[:len(block)], block, "padded data")
                found = expect(peer.append(handle, b"padded end", state, padded=True) if limit - granted >= 16 else
                               peer.append(handle, b"padded end", state), "OK", "padded").get("Q", 0)
                findings.equal(path.read_bytes()[found:], b"padded end", "padded append")
            else:
                body = peer.layout(96).put(0, "raw", handle).put(64, "raw", state).put(80, "I", 1)
                body.put(84, "I", 2).put(88, "I", 1)
                expect(Request("WRITE_INLINE", body.bytes, b"x" * 8, 136), "INVAL", "padded where that was not agreed")
            expect(peer.write(handle, 0, b"x" * 8, state, count=9), "INVAL", "byte_count beyond the message")
            expect(peer.write(handle, 0, b"x" * 8, state, count=2**32 - 1), "INVAL",
                   "byte_count far beyond the message")
            expect(peer.append(handle, b"x" * 8, state, count=9), "INVAL", "byte_count beyond the message")
            expect(peer.write(handle, 0, b"x", state, 3), "INVAL", "stable_how 3")
            expect(peer.append(handle, b"x", state, 3), "INVAL", "stable_how 3")
            expect(peer.append(handle, b"x", state, 0), "INVAL", "stable_how 0 with APPEND")
            expect(peer.write(handle, 0, b"xy" * 8, state, count=3), "OK", "less than the message holds")
            for offset in (2**63 - 1, 2**63, TOP, TOP - 3):
                expect(peer.write(handle, offset, b"data", state), "FBIG", f"at {offset:#x}")
            expect(peer.write(handle, 2**63 - 1, b"", state), "OK", "nothing, far away")
            before = path.stat().st_size
            for stable in (1, 2):
                response = expect(peer.append(handle, b"appended", state, stable), "OK", f"stable {stable}")
                findings.equal(response.get("Q", 0), before, "offset of an append")
                findings.check(response.get("I", 16) in range(stable, 3), "committed of an append")
                verifiers.add(response.raw(8, 8))
                before += 8
            findings.equal(path.read_bytes()[-16:], b"appended" * 2, "appended")
            # Direct, from segments.
            source = peer.register(pattern(6000, 5))
            for cuts in ((6000,), (1, 5999), (5000, 0, 1000), tuple([100] * 40) + (2000,)):
                if 40 + 104 + 8 + 16 * len(cuts) > limit:
                    continue
                segments, at = [], 0
                for cut in cuts:
                    segments.append(peer.segment(source, at, cut))
                    at += cut
                for stable in (0, 1, 2):
                    checksum = fletcher(order, peer.memory(source)) if peer.checksums else None
                    response = expect(peer.write_direct(handle, 11, 6000, segments, state, stable, checksum), "OK",
                                      f"{cuts[:3]}")
                    findings.equal(response.get("I", 0), 6000, "count of WRITE_DIRECT")
                    verifiers.add(response.raw(8, 8))
                findings.equal(path.read_bytes()[11:6011], pattern(6000, 5), f"WRITE_DIRECT {cuts[:3]}")
            peer.connection.operations.clear()
            checksum = fletcher(order, peer.memory(source)[:10]) if peer.checksums else None
            expect(peer.write_direct(handle, 0, 10, [peer.segment(source)], state, checksum=checksum), "OK",
                   "a part of the buffer")
            findings.equal(sum(size for _, _, _, size in peer.connection.operations), 10, "bytes that the server read")
            nothing = fletcher(order, b"") if peer.checksums else None
            expect(peer.write_direct(handle, 0, 0, [], state, checksum=nothing), "OK", "nothing")
            expect(peer.write_direct(handle, 0, 1, [], state, checksum=nothing), "INVAL", "no buffers")
            expect(peer.write_direct(handle, 0, 6001, [peer.segment(source)], state, checksum=checksum), "INVAL",
                   "too small a buffer")
            expect(peer.write_direct(handle, 0, 10, [peer.segment(source)], state, 3, checksum), "INVAL",
                   "stable_how 3")
            expect(peer.append_direct(handle, 6001, peer.segment(source), state, checksum=checksum), "INVAL",
                   "too small a buffer")
            expect(peer.append_direct(handle, 10, peer.segment(source), state, 0, checksum), "INVAL",
                   "stable_how 0 with APPEND")
            before = path.stat().st_size
            response = expect(peer.append_direct(handle, 10, peer.segment(source), state, checksum=checksum), "OK")
            findings.equal((response.get("Q", 0), path.read_bytes()[before:]), (before, pattern(10, 5)),
                           "APPEND_DIRECT")
            most = peer.must(peer.fsattr(handle)).attributes(0, FSATTR)[2]
            for key, make in (("MAX_WRITE", lambda n: peer.write_direct(handle, 0, n, [(0, n, 1)], state)),
                              ("MAX_APPEND", lambda n: peer.append_direct(handle, n, (0, n, 1), state))):
                expect(make(most[key] + 1), "WRITE_TOOBIG", f"above {key}")
                expect(make(2**32 - 1), "WRITE_TOOBIG", f"above {key}")
            findings.equal(path.stat().st_size, before + 10, "size after refused writes")
            for offset, count in ((0, 0), (5, 10), (TOP, 1), (2**63, 0), (1 << 40, 2**32 - 1)):
                response = expect(peer.commit(handle, offset, count), "OK", f"{offset:#x} {count}")
                verifiers.add(response.raw(0, 8))
            findings.equal(len(verifiers), 1, "verifiers of one server")
            # An open for writing alone, one for reading alone.
            _, reader = peer.opened(data, name, None, access=1, owner=b"r")
            expect(peer.write(handle, 0, b"x", reader), "ACCES", "with an open for reading")
            expect(peer.write_direct(handle, 0, 10, [peer.segment(source)], reader, checksum=checksum), "ACCES",
                   "with an open for reading")
            peer.close()
    findings.finish()


@scenario(timeout=120, where="server", loopback=True)
def peer_batches(rig):
    """BATCH_SUBMIT: chunks and buffers of every shape, one status each, wrong ones refused whole.
    Shows DAFS-6.5.16-02, DAFS-6.5.5-01, DAFS-6.5.5-04, DAFS-6.5.5-05, DAFS-6.1.7-02, DAFS-6.1.7-03."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    content = pattern(10_000)
    for options in in_every_form():
        order = options["order"]
        (rig.export / "source").write_bytes(content)
        peer, data = root_peer(server.port, request_size=1 << 16, **options)
        expect = expecter(peer, findings, str(options))
        source, reading = peer.opened(data, "source", None)
        name = f"b{ord(order)}{options['checksums']}{options['flags']}"
        target, writing = peer.opened(data, name)
        stag = peer.register(b"\xee" * 4000)
        out = peer.register(pattern(3000, 3))
        sums = fletcher(order, peer.memory(out)) if peer.checksums else bytes(4)

        def completions(response):
            where = response.get("I", 0)
            if not where:
                return []
            return [response.get("QII4sI", where + 8 + 24 * index) for index in range(response.get("I", where))]

        read = (source, 11, reading, 1, [(0, 100, 0), (5000, 900, 0), (9_900, 1000, 0)],
                [peer.segment(stag, 0, 1500), peer.segment(stag, 2000, 500)], None)
        write = (target, 12, writing, 2, [(0, 1000, 0), (4000, 2000, 0)],
                 [peer.segment(out, 0, 1), peer.segment(out, 1, 2999)], sums)
        bad = (ZERO64, 13, ZERO8, 1, [(0, 10, 0)], [peer.segment(stag, 3000, 10)], None)
        response = expect(peer.batch([read, write, bad]), "OK", "a read, a write and a bad handle")
        found = completions(response)
        read_sum = fletcher(order, content[:100] + content[5000:5900] + content[9900:]) if peer.checksums else bytes(4)
        findings.equal([entry[:3] for entry in found], [(11, 0, 1100), (12, 0, 3000), (13, 10001, 0)],
                       f"{options} completions")
        findings.equal([entry[3:] for entry in found[:2]], [(read_sum, 0), (bytes(4), 0)],
                       f"{options} checksums of completions")
        memory = bytes(peer.memory(stag))
        findings.equal(memory[:1100], content[:100] + content[5000:5900] + content[9900:], "what the batch read")
        findings.equal(memory[1100:], b"\xee" * 2900, "memory after it")
        findings.equal((rig.export / name).read_bytes(),
                       pattern(3000, 3)[:1000] + bytes(3000) + pattern(3000, 3)[1000:], "written")
        wrong = (target, 12, writing, 2, [(0, 3000, 0)], [peer.segment(out)], b"\1\2\3\4")
        if peer.checksums:
            findings.equal(completions(expect(peer.batch([wrong]), "OK"))[0][:3], (12, 15020, 0), "a bad checksum")
        expect(peer.batch([]), "OK", "nothing")
        expect(peer.batch([], synchronous=0), "OK", "nothing, asynchronous")
        expect(peer.batch([read], synchronous=0), "BACK_CHANNEL_UNUSABLE", "asynchronous")
        before = (rig.export / name).read_bytes()
        for items, what in (([write, write], "one id twice"),
                            ([read[:4] + ([(0, 1, 0)], read[5], None)], "totals that differ"),
                            ([read[:3] + (3,) + read[4:]], "rw_flag 3"), ([read[:3] + (0,) + read[4:]], "rw_flag 0"),
                            ([write, read[:4] + ([(0, 2**32 - 1, 0)] * 2, [(0, 2**32 - 1, 1)] * 2, None)],
                             "more than 2^32 - 1"),
                            ([read[:4] + ([(0, 1, 0)] * 257, [peer.segment(stag, 0, 257)], None)], "257 chunks")):
            expect(peer.batch(items), "INVAL", what)
        findings.equal((rig.export / name).read_bytes(), before, "after batches refused whole")
        expect(peer.batch([read[:4] + ([], [], None)]), "OK", "an item of nothing")
        big = (target, 9, writing, 2, [(0, 2**31, 0)], [(0, 2**31, 1)], None)
        findings.equal([entry[1] for entry in completions(expect(peer.batch([big]), "OK"))], [15018],
                       "more than MAX_WRITE")
        # Results that do not fit: no part of the batch runs.
        small, data = root_peer(server.port, response_size=1024, request_size=1 << 16, name="small", **options)
        into = small.register(pattern(60, 8))
        target, writing = small.opened(data, name + "s")
        one = fletcher(order, pattern(60, 8)[:1]) if small.checksums else None
        items = [(target, number, writing, 2, [(number, 1, 0)], [small.segment(into, 0, 1)], one)
                 for number in range(60)]
        findings.equal(small.call(small.batch(items)).status, "TOOSMALL", "completions that do not fit")
        findings.equal((rig.export / (name + "s")).stat().st_size, 0, "what a batch refused with TOOSMALL wrote")
        findings.equal(small.call(small.batch(items[:40])).status, "OK", "completions that fit")
        for number in (11, 0, TOP):
            expect(Request("HURRY_UP", struct.pack(order + "Q", number)), "BATCH_REQUEST_NOT_FOUND", str(number))
        small.close()
        peer.close()
    findings.finish()
