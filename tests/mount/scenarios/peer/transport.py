"""A peer with no code in common with ours: below DAFS, MPA, DDP and RDMAP, right and wrong (WIRE 11.6)."""

import random
import struct

from findings import Findings
from iwarp import (MARKERS, CRC, REJECT, WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, SEND_SOLICITED,
                   SEND_SOLICITED_INVALIDATE, TERMINATE, Closed, Connection, fpdu, mpa_request, tagged, untagged)
from peer import Peer, Request, Response
from rig import scenario


def read_request(size=8, stag=1, at=0, msn=1, **how):
    payload = struct.pack("!IQIIQ", 7, Connection.BASE, size, stag, at)
    return untagged(payload, READ_REQUEST, 1, msn, **how)


@scenario(timeout=60, where="server", loopback=True)
def peer_handshake(rig):
    """MPA requests of every kind: CRC with and without, markers, private data, revisions."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()

    def reply(request):
        connection = Connection(port, handshake=False)
        try:
            return connection.handshake(request)
        except (Closed, ValueError) as error:
            return type(error).__name__
        finally:
            connection.close()

    for size in (0, 1, 15, 16, 17, 511, 512):
        for flags in (0, CRC):
            found = reply(mpa_request(bytes(size), flags))
            findings.equal(found[:2], (flags, 1), f"reply to {size} bytes of private data, flags {flags:#x}")
    for private in (b"\0" * 16, b"DAFS" + b"\xff" * 12, b"SFAD" + bytes(12)):  # advice only (R57)
        findings.equal(reply(mpa_request(private))[:2], (0, 1), f"private data {private}")
    found = reply(mpa_request(flags=MARKERS))
    findings.check(found == "Closed" or found[0] & (REJECT | MARKERS) in (REJECT, 0), f"markers requested: {found}")
    for request, what in ((mpa_request(revision=0), "revision 0"), (mpa_request(revision=3), "revision 3"),
                          (mpa_request(bytes(513)), "513 bytes of private data"),
                          (b"MPA ID Rep Frame\0\1\0\0", "a reply frame"),
                          (b"\0" * 20, "zeros")):
        found = reply(request)
        findings.check(found == "Closed" or found[0] & REJECT, f"{what}: {found}")
    # An MPA request in pieces.
    connection = Connection(port, handshake=False)
    request = mpa_request(bytes(16))
    for index in range(len(request)):
        connection.send_raw(request[index:index + 1])
    connection.read(20)
    connection.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_segments(rig):
    """FPDUs cut anywhere, several in one piece, messages in DDP segments of every size.
    Shows DAFS-2.3.3-02, DAFS-2.3.3-10, DDP-3.1-01, DDP-3.1-02, DDP-3.1-03."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    for flags in (0, CRC):
        peer = Peer(port, flags=flags)
        peer.act_as()
        data = peer.walk("data")
        handle, state = peer.opened(data, "cut")
        request = peer.write(handle, 0, bytes(range(200)), state)

        def answered(what):
            response = Response(peer.order, peer.connection.receive())
            findings.equal(response.status, "OK", f"crc {flags}: {what}")

        whole = b"".join(peer.connection.message(peer.encode(request)))
        for index in range(len(whole)):
            peer.connection.send_raw(whole[index:index + 1])
        answered("a byte at a time")
        for cut in range(1, len(whole), 7):
            whole = b"".join(peer.connection.message(peer.encode(request)))
            peer.connection.send_raw(whole[:cut])
            peer.connection.send_raw(whole[cut:])
            answered(f"cut at {cut}")
        for size in (1, 2, 3, 5, 8, 100, 4096, 65000):
            peer.connection.segment_bytes = size
            peer.connection.send(peer.encode(request))
            answered(f"DDP segments of {size}")
        peer.connection.segment_bytes = 1400
        many = b"".join(b"".join(peer.connection.message(peer.encode(Request("NULL"), stream=stream)))
                        for stream in range(peer.granted))
        peer.connection.send_raw(many)
        for stream in range(peer.granted):
            response = Response(peer.order, peer.connection.receive())
            findings.equal((response.status, response.stream), ("OK", stream), "many FPDUs in one piece")
        dice = random.Random(17)
        for _ in range(20):
            batch = b"".join(b"".join(peer.connection.message(peer.encode(Request("NULL"), stream=stream)))
                             for stream in range(peer.granted))
            while batch:
                cut = dice.randrange(1, 300)
                peer.connection.send_raw(batch[:cut])
                batch = batch[cut:]
            for _ in range(peer.granted):
                answered("cut at random")
        for opcode in (SEND_SOLICITED,):
            peer.connection.send(peer.encode(Request("NULL")), opcode=opcode)
            answered("a solicited Send")
        # An empty last segment, and segments whose payload is empty.
        message = peer.encode(Request("NULL"))
        msn = peer.connection.next_msn()
        for piece, at, last in ((message, 0, False), (b"", 40, True)):
            peer.connection.send_ulpdu(untagged(piece, SEND, 0, msn, at, last))
        answered("an empty last segment")
        # RDMA writes and reads that the peer's response splits are placed right: segments of the Read Response of every
        # size.
        stag = peer.register(bytes(index % 251 for index in range(3000)))
        for size in (1, 7, 1000, 60000):
            peer.connection.segment_bytes = size
            peer.must(peer.write_direct(handle, 0, 3000, [peer.segment(stag)], state))
            findings.equal((rig.export / "cut").read_bytes()[:3000], bytes(peer.memory(stag)),
                           f"Read Response in segments of {size}")
        peer.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_faults(rig):
    """Each fault of WIRE 11.6 ends in a Terminate that names it, and harms no other connection.
    Shows DAFS-2.3.3-03, DDP-3-01, DDP-3-04, DDP-2.2-04, and DDP-5-02: the server
    has no memory that its peers reach."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    bystander = Peer(port, name="bystander")

    def ends(bytes_of, expected, what, flags=0, session=False, header=None):
        peer = Peer(port, flags=flags, connect=session)
        connection = peer.connection
        data = bytes_of(connection) if callable(bytes_of) else bytes_of
        ulpdu = None
        if isinstance(data, tuple):  # (ULPDU,): to be framed
            ulpdu, data = data[0], fpdu(data[0], connection.crc)
        connection.send_raw(data)
        found = connection.ended()
        wanted = expected if isinstance(expected, set) else {expected}
        findings.check(found in wanted, f"{what}: {found}, expected {expected}")
        if found and ulpdu and connection.terminated[2] & 0x40:  # the D bit: the Terminate carries the faulty header
            size = 14 if ulpdu[0] & 0x80 else 18
            findings.equal(connection.terminated[6:6 + size], ulpdu[:size], f"{what}: terminated DDP header")
        connection.close()
        findings.equal(bystander.call(Request("NULL")).status, "OK", f"the bystander after {what}")

    request = Peer(port, connect=False)
    connect = request.encode(Request("CLIENT_CONNECT_AUTH", request.connect_body("n", size=72)))
    request.close()
    ends(lambda c: fpdu(untagged(connect), True, bad_crc=True), (2, 0, 2), "a bad CRC", CRC)
    for session in (False, True):
        def at(connection):
            return connection.sent[0] + 1

        for version in (0, 2, 3):
            ends(lambda c, v=version: (untagged(connect, msn=at(c), ddp=v),), (1, 2, 6), f"DDP version {version}", 0,
                 session)
            ends(lambda c, v=version: (tagged(b"x", WRITE, 1, 0, ddp=v),), (1, 1, 4), f"DDP version {version}, tagged",
                 0, session)
            ends(lambda c, v=version: (untagged(connect, msn=at(c), rdmap=v),), (0, 2, 5), f"RDMAP version {version}",
                 0, session)
        for opcode in (8, 9, 12, 15):
            ends(lambda c, o=opcode: (untagged(connect, o, msn=at(c)),), (0, 2, 6), f"opcode {opcode}", 0, session)
        ends(lambda c: (untagged(connect, WRITE, msn=at(c)),), (0, 2, 6), "an untagged RDMA Write", 0, session)
        ends(lambda c: (tagged(b"x", SEND, 1, 0),), {(0, 2, 6), (1, 1, 0)}, "a tagged Send", 0, session)
        for queue in (3, 2**32 - 1):
            ends(lambda c, q=queue: (untagged(connect, queue=q, msn=at(c)),), {(1, 2, 1), (0, 2, 6)}, f"queue {queue}",
                 0, session)
        ends(lambda c: (untagged(connect, queue=1, msn=1),), {(0, 2, 6), (1, 2, 1)}, "a Send on queue 1", 0, session)
        for wrong in (0, 2, 7, 2**31, 2**32 - 1):
            ends(lambda c, w=wrong: (untagged(connect, msn=(at(c) - 1 + w) % 2**32),), {(1, 2, 3), (1, 2, 2)},
                 f"MSN off by {wrong}", 0, session)
        for offset in (1, 8, 2**32 - 1):
            ends(lambda c, o=offset: (untagged(connect, msn=at(c), offset=o),), {(1, 2, 4), (1, 2, 5)},
                 f"message offset {offset}", 0, session)
        ends(lambda c: (untagged(bytes(60000), msn=at(c)),), (1, 2, 5), "a Send of 60,000 bytes", 0, session)
        for stag in (0, 1, 0xFFFFFFFF, 0x100):
            ends(lambda c, s=stag: (tagged(b"data", WRITE, s, Connection.BASE),), (1, 1, 0),
                 f"RDMA Write to STag {stag:#x}", 0, session)
            ends(lambda c, s=stag: (tagged(b"data", READ_RESPONSE, s, 0),), {(1, 1, 0), (0, 2, 6)},
                 f"Read Response to {stag:#x}", 0, session)
            ends(lambda c, s=stag: (read_request(8, s),), (0, 1, 0), f"RDMA Read of STag {stag:#x}", 0, session)
            ends(lambda c, s=stag: (untagged(connect, SEND_INVALIDATE, msn=at(c), stag=s),), (0, 2, 9),
                 f"Send with Invalidate of {stag:#x}", 0, session)
            ends(lambda c, s=stag: (untagged(connect, SEND_SOLICITED_INVALIDATE, msn=at(c), stag=s),), (0, 2, 9),
                 f"solicited Send with Invalidate of {stag:#x}", 0, session)
        ends(lambda c: (read_request(8, msn=2),), {(1, 2, 3), (1, 2, 2)}, "Read Request with MSN 2", 0, session)
        ends(lambda c: (untagged(bytes(27), READ_REQUEST, 1),), {(0, 2, 6), (1, 2, 5), (0, 2, 7), (0, 2, 255), None},
             "a Read Request of 27 bytes", 0, session)
        ends(lambda c: (untagged(bytes(29), READ_REQUEST, 1),), {(1, 2, 5), (0, 2, 7), (0, 2, 255), (0, 2, 6)},
             "one of 29 bytes", 0, session)
        # The peer's own Terminate is not answered.
        ends(lambda c: (untagged(bytes((0x11, 0, 0, 0)), TERMINATE, 2),), None, "a Terminate", 0, session)
        for size in (0, 1, 2, 13, 17):
            ends(lambda c, n=size: (b"\x41\x43" * 9)[:n] and (((b"\x41\x43" * 9)[:n]),) or fpdu(b""),
                 {None, (2, 0, 3), (0, 2, 255), (1, 2, 6), (0, 2, 6), (1, 0, 0), (2, 0, 0)}, f"a ULPDU of {size} bytes",
                 0, session)
    # Half an FPDU and the end: the server does not wait for the rest.
    peer = Peer(port)
    peer.connection.send_raw(fpdu(untagged(connect))[:30])
    peer.close()
    findings.equal(bystander.call(Request("NULL")).status, "OK", "the bystander in the end")
    bystander.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_answers(rig):
    """Read Responses that do not match their request: the connection ends, the file keeps its content.
    Shows DAFS-2.3.3-04 (RDMA reads), FAST03-3.1-09 (RDMA reads)."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    bystander = Peer(port, name="bystander")

    def answers(what, reply):
        peer = Peer(port)
        peer.act_as()
        handle, state = peer.opened(peer.walk("data"), "kept", mode=0o666)
        peer.must(peer.write(handle, 0, b"kept as it was", state))
        connection = peer.connection
        connection.answer_read = lambda payload: reply(connection, *struct.unpack("!IQIIQ", payload))
        peer.submit(peer.write_direct(handle, 0, 1000, [(Connection.BASE, 1000, 77)], state))
        ended = connection.ended()
        findings.check(ended is None or ended[0] in (0, 1), f"{what}: {ended}")
        findings.equal((rig.export / "kept").read_bytes(), b"kept as it was", what)
        findings.equal(bystander.call(Request("NULL")).status, "OK", f"the bystander after {what}")
        peer.close()

    def response(connection, size, stag, at, last=True):
        connection.send_ulpdu(tagged(b"x" * size, READ_RESPONSE, stag, at, last))

    answers("more than asked for", lambda c, sink, at, size, *_: response(c, size + 8, sink, at))
    answers("less than asked for", lambda c, sink, at, size, *_: response(c, size - 8, sink, at))
    answers("nothing", lambda c, sink, at, size, *_: response(c, 0, sink, at))
    answers("another place", lambda c, sink, at, size, *_: response(c, size, sink, at + 8))
    answers("a place before", lambda c, sink, at, size, *_: response(c, size, sink, at - 8))
    answers("another STag", lambda c, sink, at, size, *_: response(c, size, sink ^ 0x100, at))
    answers("an RDMA Write instead", lambda c, sink, at, size, *_: c.send_ulpdu(tagged(b"x" * size, WRITE, sink, at)))
    answers("a Terminate", lambda c, *_: c.send_ulpdu(untagged(bytes((0x01, 0, 0, 0)), TERMINATE, 2)))
    answers("the end", lambda c, *_: c.socket.shutdown(1))

    def in_two(connection, sink, at, size, *_):
        response(connection, size // 2, sink, at, last=False)
        response(connection, size - size // 2, sink, at)  # the same place again

    answers("one half twice", in_two)
    bystander.close()
    findings.finish()
