"""A peer with no code in common with ours: the RDMA-read Channel (3.1.2.3, WIRE 6.2.5, 11.1)."""

import struct

from findings import Findings, expecter, in_every_form, root_peer
from iwarp import Connection, private_data
from layout import fletcher
from peer import Peer, Request
from rig import scenario


def channel(port, peer, flags=0, private=None):
    """Returns a connection for a channel of `peer`'s session, before any message."""
    other = Peer(port, peer.order, connect=False)
    other.close()
    other.connection = Connection(port, flags, private_data(peer.order, 4) if private is None else private)
    other.checksums = peer.checksums
    return other


def bind(peer, other, use=2, auth=0, session=None, order=None):
    """CONNECT_BIND on `other`."""
    body = struct.pack((order or peer.order) + "8sHxxIIIIIII", session or peer.session_id, use, 1024, 2048, 3, auth, 0,
                       0, 0)
    return Request("CONNECT_BIND", body)


@scenario(timeout=60, where="server", loopback=True)
def peer_channels(rig):
    """CONNECT_BIND: granted or not, twice, from others, in another order; RDMA reads on the channel that was bound.
    Shows DAFS-3.2.5-07, DAFS-6.2.5-05 (another identity), DAFS-7-18 (its value and meaning)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    port = server.port
    for options in in_every_form():
        order, flags = options["order"], options["flags"]
        peer, data = root_peer(port, rdma_read=1, **options)
        if not peer.limits["rdma_read"]:
            continue
        said = str(options)
        expect = expecter(peer, findings, said)
        handle, state = peer.opened(data, "bound")
        stag = peer.register(b"read on the channel")
        sums = fletcher(order, peer.memory(stag)) if peer.checksums else None
        write = peer.write_direct(handle, 0, 19, [peer.segment(stag)], state, checksum=sums)
        expect(write, "RDMA_READ_CHANNEL_UNUSABLE", "before the channel is bound")
        expect(peer.append_direct(handle, 19, peer.segment(stag), state, checksum=sums), "RDMA_READ_CHANNEL_UNUSABLE")
        expect(peer.write(handle, 0, b"inline", state), "OK", "inline meanwhile")

        def refused(request, status, what, private=None):
            other = channel(port, peer, flags, private)
            other.submit(request)
            findings.equal(other.result(False).status, status, f"{said} {what}")
            other.close()

        refused(bind(peer, None, session=b"no such!"), "UNKNOWN_SESSION", "an unknown session")
        refused(bind(peer, None, use=3), "INVAL", "channel_use 3")
        refused(bind(peer, None, use=0), "INVAL", "channel_use 0")
        refused(bind(peer, None, use=1), "ILLEGAL_STATE", "a Back-control Channel that was not granted")
        refused(bind(peer, None, auth=3), "NOT_AUTHORIZED", "another method")
        half = Peer(port, order, connect=False)
        half.adopt(half.connect("half", auth=None, rdma_read=1))
        refused(Request("CONNECT_BIND", half.session_id + bind(peer, None).body[8:]), "ILLEGAL_STATE",
                "a session without a user")
        half.close()
        other = channel(port, peer, flags)
        other.submit(bind(peer, other))
        response = other.result(False)
        findings.equal((response.status, len(response.message)), ("OK", 72), said)
        findings.equal(response.get("III", 0), (1024, 2048, 3), "the sizes come back as requested")
        refused(bind(peer, None), "ILLEGAL_STATE", "bound twice")
        # Renewal, with a checksum if the session has them. The server refuses all other requests on this channel.
        other.session_id = peer.session_id
        other.submit(bind(peer, other))
        findings.equal(other.result().status, "OK", f"{said} renewal")
        if peer.checksums:
            other.submit(bind(peer, other), checksum=b"\1\2\3\4")
            findings.equal(other.result().status, "CHKSUM", f"{said} renewal with a bad checksum")
        other.submit(Request("NULL"))
        findings.equal(other.result().status, "NOTSUPP", f"{said} NULL on the channel")
        # The read uses the channel, the response the connection of the request.
        other.connection.regions = peer.connection.regions
        peer.submit(write)
        while not other.connection.operations:
            other.connection.step()
        findings.equal(peer.result().status, "OK", f"{said} WRITE_DIRECT over the channel")
        findings.equal((rig.export / "bound").read_bytes(), b"read on the channel", said)
        findings.equal(peer.connection.operations, [], "operations on the Operation Channel")
        # Another order closes the channel.
        stranger = channel(port, peer, flags)
        turned = "<" if order == ">" else ">"
        stranger.order = turned
        stranger.submit(bind(peer, stranger, order=turned))
        findings.equal(stranger.connection.ended(), None, f"{said} CONNECT_BIND in another byte order")
        other.close()
        peer.close()
    # Any private data (11.1), again and again, so that each thread of the server gets some.
    for private in (lambda kind: b"", lambda kind: bytes(16), lambda kind: private_data("<", 1),
                    lambda kind: private_data("<", 9),
                    lambda kind: private_data("<", kind)[:12], lambda kind: private_data("<", kind)):
        held = []
        for number in range(6):
            peer = Peer(port, connect=False)
            peer.close()
            peer.connection = Connection(port, 0, private(1))
            peer.adopt(peer.connect(f"several{number}", rdma_read=1))
            other = channel(port, peer, 0, private(4))
            other.submit(bind(peer, other))
            findings.equal(other.result(False).status, "OK", f"session {number}, private data {private(4)}")
            held += [peer, other]
        for one in held:
            one.close()
    findings.finish()
