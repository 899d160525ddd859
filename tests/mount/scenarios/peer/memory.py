"""A peer with no code in common with ours: the server's direct memory, which its clients share."""

import os
import socket

from findings import Findings
from iwarp import Closed
from peer import Peer, Request
from rig import scenario

MIB = 1 << 20
PIECE = 16 << 10


@scenario(timeout=60, where="server", loopback=True)
def peer_leaves_early(rig):
    """A peer lists a directory and leaves without reading: data on its way stays unchanged, while others read."""
    rig.expect(".*")
    findings = Findings()
    server = rig.serve(arguments=("--threads", "1", "--disk-threads", "1"))
    (rig.export / "open").write_bytes(b"o" * MIB)
    (rig.export / "secret").write_bytes(b"\xa5" * PIECE)
    os.chmod(rig.export / "secret", 0o600)
    names = [f"{'name' * 20}{number}" for number in range(400)]
    (rig.export / "many").mkdir()
    for name in names:
        (rig.export / "many" / name).touch()
    owner = Peer(server.port, name="owner")
    owner.act_as()
    secret, many = owner.walk("data", "secret"), owner.walk("data", "many")
    into = owner.register(PIECE)
    for _ in range(3):
        peer = Peer(server.port, name="leaves", requests=64)
        peer.act_as(65534, 65534)
        peer.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        file, taken = peer.walk("data", "open"), peer.register(MIB)
        for stream in range(12):  # far more than TCP holds
            peer.submit(peer.read_direct(file, 0, MIB, [peer.segment(taken)]), stream=stream)
        # In one piece, so that the lists, which the disk threads make, are done after the peer ended.
        lists = [peer.register(PIECE) for _ in range(8)]
        messages = [peer.readdir(many, maxcount=PIECE, segments=[peer.segment(stag)]) for stag in lists]
        messages.append(Request("DISCONNECT"))
        peer.connection.send_raw(b"".join(part for number, message in enumerate(messages) for part in
                                          peer.connection.message(peer.encode(message, stream=12 + number))))
        for _ in range(2):  # queued after those lists
            owner.must(owner.readdir(many))
        owner.must(owner.read_direct(secret, 0, PIECE, [owner.segment(into)]))
        findings.equal(bytes(owner.memory(into)), b"\xa5" * PIECE, "the owner's own reading")
        try:
            while True:
                peer.connection.receive()
        except Closed:
            pass
        findings.equal(bytes(peer.memory(taken)), b"o" * MIB, "what was read before")
        for stag in lists:
            findings.check(b"\xa5\xa5" not in peer.memory(stag), "the bytes of another client's file came")
        peer.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_moves_nothing(rig):
    """Peers that answer no RDMA read and take no data: other peers of the same worker continue to read and write."""
    rig.expect(".*")
    findings = Findings()
    server = rig.serve(arguments=("--threads", "1"))
    (rig.export / "file").write_bytes(b"o" * MIB)
    os.chmod(rig.export / "file", 0o666)
    owner = Peer(server.port, name="owner", requests=8)
    owner.act_as()
    owner.connection.socket.settimeout(5)
    file, into = owner.walk("data", "file"), owner.register(MIB)
    still = []
    for number, request in enumerate(("WRITE_DIRECT", "READ_DIRECT")):
        peer = Peer(server.port, name=f"still{number}", requests=64)
        peer.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        memory = peer.register(MIB)
        for stream in range(60):  # twice what there is
            direct = peer.write_direct if request == "WRITE_DIRECT" else peer.read_direct
            peer.submit(direct(file, 0, MIB, [peer.segment(memory)]), stream=stream)
        still.append(peer)
        try:
            for size in (4096, MIB, 4096, 1 << 18):
                owner.must(owner.read_direct(file, 0, size, [owner.segment(into, 0, size)]))
                owner.must(owner.write_direct(file, 0, size, [owner.segment(into, 0, size)]))
        except TimeoutError:
            findings.check(False, f"{request} that no peer serves: others wait")
            break
    for peer in still:
        peer.close()
    findings.finish()
