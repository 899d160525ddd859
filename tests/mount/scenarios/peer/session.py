"""A peer with no code in common with ours: headers, connecting, authentication, credits and checksums."""

import struct

from findings import Findings, in_every_form
from iwarp import Closed
from layout import PROC, fletcher
from peer import Peer, Request, Response
from rig import scenario


def how_it_ends(port, message, **options):
    """Sends `message` first, or after a session's begin; returns "closed", or the status of the response."""
    peer = Peer(port, **options)
    peer.connection.send(message(peer) if callable(message) else message)
    try:
        return Response(peer.order, peer.connection.receive()).status
    except Closed as closed:
        return "closed" if closed.terminate is None else f"terminate {closed.terminate}"
    finally:
        peer.close()


@scenario(timeout=120, where="server", loopback=True)
def peer_headers(rig):
    """Framing and header faults. Shows DAFS-6.1.2-02, DAFS-6.1.2-03, DAFS-6.1.2-07, DAFS-3.1-01 (server)."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    null = Request("NULL")

    for options in in_every_form():
        said = f"order {options['order']} checksums {options['checksums']} crc {options['flags']}"

        def first(message, expected, what):
            findings.equal(how_it_ends(port, message, connect=False, **options), expected, f"{said}: {what}")

        def later(message, expected, what):
            findings.equal(how_it_ends(port, message, **options), expected, f"{said}, session: {what}")

        for begin in (first, later):
            begin(lambda p: p.encode(null)[:39] + b"", "closed", "39 bytes")
            begin(lambda p: p.encode(null)[:32], "closed", "32 bytes")
            begin(b"\0" * 8, "closed", "8 bytes")
            begin(lambda p: p.encode(null) + bytes(8), "closed", "8 bytes after request_len")
            begin(lambda p: p.encode(null, length=48), "closed", "request_len above the message")
            begin(lambda p: p.encode(null, length=36), "closed", "request_len 36")
            begin(lambda p: p.encode(null, length=41) + b"\0", "closed", "request_len 41")
            begin(lambda p: p.encode(null, magic=0x44414652), "closed", "a response's magic")
            begin(lambda p: p.encode(null, magic=0x12345678), "closed", "an unknown magic")
        later(lambda p: Peer.encode(_turned(p), null), "closed", "the other byte order")
        # Step 3 before step 4 of WIRE 9.2.
        first(lambda p: p.encode(null), "ILLEGAL_STATE", "NULL without a session")
        first(lambda p: p.encode(null, procedure=999), "ILLEGAL_STATE", "an unknown procedure without a session")
        first(lambda p: p.encode(null, version=2), "ILLEGAL_PROT", "NULL of version 2 without a session")
        # Procedures that are not assigned, or of the other direction, whatever else is wrong with the request.
        for procedure in (107, 120, 121, 154, 161, 99, 0, 2**32 - 1, 1999, 151, 152, 153, 155):
            later(lambda p, n=procedure: p.encode(null, procedure=n, flags=64), "NOTSUPP", f"procedure {procedure}, flags")
            later(lambda p, n=procedure: p.encode(null, procedure=n), "NOTSUPP", f"procedure {procedure}")
        for name in ("CLIENT_CONNECT", "CLIENT_CONNECT_AUTH", "CONNECT_BIND"):
            later(lambda p, n=name: p.encode(null, procedure=PROC[n], checksum=bytes(4)), "ILLEGAL_STATE",
                  f"{name} on a session")
        later(lambda p: p.encode(null, version=0), "ILLEGAL_PROT", "version 0")
        later(lambda p: p.encode(null, stream=p.granted), "INVAL", "a stream beyond those granted")
        later(lambda p: p.encode(null, stream=65535), "INVAL", "stream 65535")
        later(lambda p: p.encode(null, cred=b"abcd"), "NO_CREDS", "an unknown cred_handle")

        peer = Peer(port, **options)
        response = peer.call(null, analyzer=b"\xff\0any\x80!!")
        findings.equal((response.version, response.analyzer, response.stream), (1, b"\xff\0any\x80!!", 0), said)
        for version, answered in ((0, 0), (2, 1), (2**32 - 1, 1)):
            response = peer.call(null, version=version)
            findings.equal((response.status, response.version, len(response.message)), ("ILLEGAL_PROT", answered, 40),
                           f"{said}: version {version}")
        response = peer.call(null)  # none of which ended the session
        findings.equal(response.status, "OK", said)
        findings.equal(peer.call(Request("NULL", bytes(800))).status, "OK", f"{said}: heap that no offset leads to")
        peer.close()
    findings.finish()


def _turned(peer):
    peer.order = "<" if peer.order == ">" else ">"
    return peer


@scenario(timeout=60, where="server", loopback=True)
def peer_connects(rig):
    """Connect exchanges: negotiated values, versions, repetition, authentication, wrong arguments.
    Shows DAFS-3.2.6.3-03, DAFS-4.4.1.2-25, DAFS-6.2.7-01."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    for order in "<>":
        # The channel stays open after a failed connect request, for any correct one.
        peer = Peer(port, order, connect=False)
        for version, answered in ((2, 1), (0, 0), (7, 1)):
            peer.submit(Request("CLIENT_CONNECT_AUTH", peer.connect_body("n", size=72)), version=version, seq=1)
            response = peer.result(False)
            findings.equal((response.status, response.version, response.target_nreq), ("ILLEGAL_PROT", answered, 1),
                           f"connect of version {version}")
        for body, what in ((peer.connect_body(None, size=72), "no client_id_string"),
                           (peer.connect_body("", size=72), "an empty client_id_string"),
                           (peer.connect_body(b"x" * 1025, size=72), "a client_id_string of 1025 bytes"),
                           (peer.connect_body("n", size=72, auth=9), "an unknown auth_type"),
                           (peer.connect_body("n", size=72, fence=b"f" * 1025), "a fence id of 1025 bytes"),
                           (peer.connect_body("n", size=72)[:64], "a short fixed section"),
                           (peer.connect_body("n", size=72)[:40] + struct.pack(order + "I", 20) +
                            peer.connect_body("n", size=72)[44:], "a misaligned offset"),
                           (peer.connect_body("n", size=72)[:40] + struct.pack(order + "I", 64) +
                            peer.connect_body("n", size=72)[44:], "an offset into the fixed section"),
                           (peer.connect_body("n", size=72)[:40] + struct.pack(order + "I", 4096) +
                            peer.connect_body("n", size=72)[44:], "an offset beyond the message")):
            peer.submit(Request("CLIENT_CONNECT_AUTH", body), seq=1)
            response = peer.result(False)
            findings.equal((response.status, response.target_nreq, len(response.message)), ("INVAL", 1, 40), what)
        response = peer.connect("n", auth=1)
        findings.equal(response.status, "INVAL", "TEXT without auth_id")
        response = peer.connect("n", auth=None)  # CLIENT_CONNECT
        findings.equal((response.status, len(response.message)), ("OK", 96), "CLIENT_CONNECT")
        peer.adopt(response)
        findings.equal(response.target_nreq, peer.granted, "target_nreq of the connect response")
        findings.equal(peer.call(Request("NULL")).status, "NOT_AUTHENTICATED", "NULL before authentication")
        findings.equal(peer.call(Request("NULL"), procedure=120).status, "NOT_AUTHENTICATED", "120 unauthenticated")
        findings.equal(peer.call(Request("SERVER_AUTH", bytes(8))).status, "NOT_AUTHENTICATED", "SERVER_AUTH early")
        response = peer.call(Request("SECINFO"))
        findings.equal(response.status, "OK", "SECINFO")
        where = response.get("I", 0)
        kinds = [response.get("I", where + 4 + 16 * i) for i in range(response.get("I", where))]
        findings.equal(sorted(kinds), [0, 3], "methods offered")
        findings.equal(peer.authenticate(1).status, "INVAL", "TEXT without auth_id")
        response = peer.authenticate(3)
        findings.equal((response.status, response.get("I", 0), len(response.message)), ("OK", 3, 64), "CLIENT_AUTH")
        findings.equal(peer.authenticate(0).status, "NOT_AUTHORIZED", "another method at renewal")
        findings.equal(peer.authenticate(3).status, "OK", "renewal")
        response = peer.call(Request("SERVER_AUTH", struct.pack(order + "II", 3, 0)))
        findings.equal((response.status, response.get("I", 0)), ("OK", 3), "SERVER_AUTH")
        findings.equal(peer.call(Request("SERVER_AUTH", struct.pack(order + "II", 4, 0))).status, "INVAL", "method 4")
        for call, expected in ((Request("DISCONNECT"), "OK"),):
            findings.equal(peer.call(call).status, expected, call.name)
        findings.equal(peer.connection.ended(), None, "the end after DISCONNECT")

        # The first request may be 4096 bytes long, no more.
        for size, expected in ((4096, "OK"), (4104, "terminate (1, 2, 5)")):
            begin = Peer(port, order, connect=False)
            body = begin.connect_body("l", size=72)
            message = begin.encode(Request("CLIENT_CONNECT_AUTH", body + bytes(size - 40 - len(body))))
            begin.close()
            findings.equal(how_it_ends(port, message, order=order, connect=False), expected,
                           f"a connect request of {size} bytes")
        # A name belongs to the principal that authenticated with it: no other principal takes its state away (R80).
        owner = Peer(port, order, name="theirs")
        owner.act_as()
        data = owner.must(owner.lookup(owner.root(), ["data"])).raw(0, 64)
        handle, state = owner.opened(data, "owned")
        thief = Peer(port, order, connect=False)
        findings.equal(thief.connect("theirs", b"stranger", auth=3).status, "CLID_INUSE", "another principal")
        findings.equal(thief.connect("theirs", b"stranger", auth=None).status, "OK", "nobody yet")
        thief.session_id = bytes(8)
        findings.equal(thief.authenticate(3).status, "CLID_INUSE", "another principal, by CLIENT_AUTH")
        thief.close()
        findings.equal(owner.call(owner.read(handle, 0, 1, state)).status, "OK", "the state that another asked for")
        owner.close()

        # WIRE 11.3: the client's requests and the limits of the reply.
        for asked in ({}, {"request_size": 1, "response_size": 1, "requests": 1}, {"request_size": 2**32 - 1},
                      {"response_size": 2**32 - 1, "requests": 2**32 - 1}, {"request_size": 1031, "header_size": 1},
                      {"header_size": 2**32 - 1}, {"header_size": 4096, "request_size": 2048}, {"header_size": 137},
                      {"request_size": 5001, "response_size": 4999, "credentials": 3, "cache": 1},
                      {"back_control": 1, "rdma_read": 7}):
            peer = Peer(port, order, name=f"v{sorted(asked.items())}", **asked)
            got = peer.limits
            for key in ("request_size", "response_size"):
                ask = asked.get(key, 0)
                findings.check(got[key] % 8 == 0 and got[key] >= 1024 and (
                    not ask or got[key] <= max(ask // 8 * 8, 1024)), f"asked {asked}: {key} {got[key]}")
            findings.check(1 <= got["requests"] <= 65535, f"asked {asked}: {got['requests']} requests")
            header = got["header_size"]
            findings.check(header == 0 or header % 8 == 0 and 136 <= header <= got["request_size"],
                           f"asked {asked}: inline_write_header_size {header}")
            findings.check(got["back_control"] <= asked.get("back_control", 0), f"asked {asked}: back-control")
            findings.equal(got["checksums"], 0, f"asked {asked}: checksums")
            findings.equal(peer.call(Request("NULL")).status, "OK", f"asked {asked}: NULL")
            peer.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_credits(rig):
    """Flow control with one credit, with many, with too many requests. Shows DAFS-3.2.6.4.1-02 (requests)."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    for order in "<>":
        peer = Peer(port, order, requests=1, request_size=1024, response_size=1024)
        findings.equal(peer.granted, 1, "requests granted of one asked")
        for _ in range(50):
            findings.equal(peer.call(Request("NULL")).status, "OK", "NULL with one credit")
        findings.equal(peer.call(Request("NULL"), stream=1).status, "INVAL", "stream 1 of one")
        # The client may request more; each stream is usable as soon as target_nreq has grown.
        response = peer.call(Request("NULL"), desired=8)
        grown = response.target_nreq
        findings.check(grown >= 1, f"target_nreq {grown}")
        for stream in range(grown):
            findings.equal(peer.call(Request("NULL"), stream=stream).status, "OK", f"stream {stream} of {grown}")
        # The client may request fewer: Nreq goes down by one with each response.
        nreq = grown
        while nreq > 1:
            nreq = max(nreq - 1, peer.call(Request("NULL"), desired=1).target_nreq)
        findings.equal(peer.call(Request("NULL"), desired=1).status, "OK", "NULL after shrinking")
        # The client uses all streams at once, in any order.
        peer = Peer(port, order, requests=32, name="many")
        for rounds in range(20):
            for stream in reversed(range(peer.granted)):
                peer.submit(Request("NULL"), stream=stream)
            for _ in range(peer.granted):
                findings.equal(peer.result().status, "OK", "one of many")
        # A second request on a stream in use. Both are sent together, because the first is answered at once.
        first, second = peer.encode(Request("NULL")), peer.encode(Request("NULL"))
        peer.connection.send_raw(b"".join(peer.connection.message(first) + peer.connection.message(second)))
        statuses = [Response(order, peer.connection.receive()).status for _ in range(2)]
        findings.check(statuses[0] in ("OK", "INVAL"), f"two on one stream: {statuses}")
        # Wrong numbers are refused, and the right one is still good.
        findings.equal(peer.call(Request("NULL"), stream=5, seq=(peer.next_seq[5] + 7) % 65536).status, "INVAL",
                       "wrong seq")
        findings.equal(peer.call(Request("NULL"), stream=5).status, "OK", "the right seq after it")
        # More requests than credits: no receive is posted, Terminate and the end.
        peer = Peer(port, order, requests=2, request_size=1024, name="over")
        peer.connection.send_raw(b"".join(b"".join(peer.connection.message(peer.encode(Request("NULL"), stream=s % 2)))
                                          for s in range(400)))
        ended = peer.connection.ended()
        findings.check(ended in ((1, 2, 2), None), f"too many requests: {ended}")
        # A message longer than the receive.
        peer = Peer(port, order, request_size=1024, name="long")
        peer.connection.send(peer.encode(Request("NULL", bytes(1024))))
        findings.equal(peer.connection.ended(), (1, 2, 5), "a message longer than max_request_size")
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_checksums(rig):
    """Checksums: due, bad, and not due.
    Shows DAFS-3.2.5-01, DAFS-3.2.5-02, DAFS-3.2.5-03, DAFS-3.2.5-04, DAFS-3.2.5-08, DAFS-6.5.39-01 (direct
    checksums)."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    for order in "<>":
        peer = Peer(port, order, checksums=True)
        peer.act_as()
        data = peer.walk("data")
        handle, state = peer.opened(data, f"sums{order == '<'}")
        for wrong in (bytes(4), b"\x01\x02\x03\x04"):
            findings.equal(peer.call(Request("NULL"), checksum=wrong).status, "CHKSUM", "a bad checksum")
        # The request is not executed, and the stream continues with the same number or the next.
        findings.equal(peer.call(peer.write(handle, 0, b"bad", state), checksum=b"\1\1\1\1").status, "CHKSUM", "WRITE")
        findings.equal(peer.must(peer.getattr(handle)).attributes()[2]["OBJECT_SIZE"], 0, "size after a refused write")
        # The padding after the data is part of the sum, whatever it holds.
        message = bytearray(peer.encode(peer.write(handle, 0, b"abc", state)))
        message[-3:] = b"pad"
        message[24:28] = bytes(4)
        message[24:28] = fletcher(order, message)
        peer.connection.send(bytes(message))
        findings.equal(Response(order, peer.connection.receive()).status, "OK", "padding that is not zero")
        # A direct transfer with a bad checksum.
        stag = peer.register(b"direct data!")
        request = peer.write_direct(handle, 0, 12, [peer.segment(stag)], state, checksum=b"\x09" * 4)
        findings.equal(peer.call(request).status, "CHKSUM", "a bad direct_checksum")
        request = peer.append_direct(handle, 12, peer.segment(stag), state, checksum=b"\x09" * 4)
        findings.equal(peer.call(request).status, "CHKSUM", "a bad direct_checksum of APPEND_DIRECT")
        findings.equal(peer.must(peer.getattr(handle)).attributes()[2]["OBJECT_SIZE"], 3, "size after refused writes")
        request = peer.write_direct(handle, 0, 12, [peer.segment(stag)], state,
                                    checksum=fletcher(order, b"direct data!"))
        findings.equal(peer.call(request).status, "OK", "a good direct_checksum")
        into = peer.register(20)
        response = peer.must(peer.read_direct(handle, 0, 20, [peer.segment(into, 0, 3), peer.segment(into, 3, 17)],
                                              state))
        findings.equal(response.raw(8, 4), fletcher(order, b"direct data!"), "direct_checksum of a read")
        response = peer.must(peer.read_direct(handle, 100, 0, [], state))
        findings.equal(response.raw(8, 4), b"\0\0\1\1", "direct_checksum of nothing")
        # CLIENT_CONNECT on the session: the checksum is not verified, so the error is ILLEGAL_STATE, without a
        # checksum.
        for name in ("CLIENT_CONNECT", "CLIENT_CONNECT_AUTH", "CONNECT_BIND"):
            for checksum in (bytes(4), b"\1\2\3\4"):
                peer.submit(Request(name, bytes(72)), checksum=checksum)
                findings.equal(peer.result(checked=False).status, "ILLEGAL_STATE", f"{name} with {checksum}")
        findings.equal(peer.call(Request("DISCONNECT")).status, "OK", "DISCONNECT")
        # Without checksums the server ignores the field.
        peer = Peer(port, order)
        findings.equal(peer.call(Request("NULL"), checksum=b"\1\2\3\4").status, "OK",
                       "a checksum that was not negotiated")
    findings.finish()
