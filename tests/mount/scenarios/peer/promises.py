"""Peers with no code in common with ours that hold many promises of the server."""

import os
import struct

from iwarp import private_data
from layout import BIT, ZERO8
from peer import Peer, Request
from rig import check, equal, note, scenario

from .channels import bind, channel

ATTRIBUTES_PROMISED = 0x200  # docs/wire.md 9.6
CLIENTS = 4
OF_CLIENT = 245_000  # fewer than make the server end some, docs/wire.md 9.6
ROOM = 1 << 20
MOST = 110  # bytes of a promise, with what the allocator adds


class Holder:
    """A client that takes promises and keeps its sessions open."""

    def __init__(self, port, name):
        self.peer = Peer(port, name=name, back_control=1, request_size=1 << 16)
        self.back = channel(port, self.peer, private=private_data(self.peer.order, 2))
        self.back.submit(bind(self.peer, self.back, use=1))
        equal(self.back.result(False).status, "OK", "CONNECT_BIND of the Back-control Channel")
        self.peer.act_as()
        self.memory = self.peer.register(ROOM)

    def take_part(self):
        self.peer.conditions |= 0xF00
        granted, _ = self.peer.must(Request("PROMISES", struct.pack("<II", OF_CLIENT + 1000, 0))).get("II", 0)
        check(granted > OF_CLIENT, f"{granted} promises granted")

    def list(self, *path):
        """Lists a directory with an attribute of each entry. Returns the number of entries, and of those with promised
        attributes."""
        directory = self.peer.walk(*path)
        cookie, verifier, entries, promised = 0, ZERO8, 0, 0
        while True:
            response = self.peer.must(self.peer.readdir(directory, cookie, verifier, 0, ROOM, BIT["CHANGE"],
                                                        [self.peer.segment(self.memory)]))
            count, = struct.unpack_from("<I", self.peer.memory(self.memory))
            entries += count
            promised += count if response.spec_cond & ATTRIBUTES_PROMISED else 0
            if response.get("I", 8):
                return entries, promised
            verifier = response.raw(0, 8)
            cookie, = struct.unpack_from("<Q", self.peer.memory(self.memory), 8 + 16 * (count - 1))

    def close(self):
        self.back.close()
        self.peer.close()


@scenario(timeout=1200, where="server", loopback=True)
def peer_promises(rig):
    """The server's memory for 40,000 promises of the attributes of as many files (980,000 in a full run)."""
    each = OF_CLIENT if rig.full else 10_000
    for number in range(CLIENTS):
        (rig.export / f"files{number}").mkdir()
        for file in range(each):
            os.mknod(rig.export / f"files{number}" / f"file{file}", 0o644)
    server = rig.serve()
    holders = [Holder(server.port, f"holder{number}") for number in range(CLIENTS)]
    for number, holder in enumerate(holders):
        equal(holder.list("data", f"files{number}"), (each, 0), "entries, and promises before PROMISES")
    before = server.usage()["resident"] << 10
    for number, holder in enumerate(holders):
        holder.take_part()
        equal(holder.list("data", f"files{number}"), (each, each), "entries and promises")
    after = server.usage()["resident"] << 10
    promises = CLIENTS * each
    bytes_each = (after - before) / promises
    note(f"{promises} promises: {before >> 20} MiB resident before, {after >> 20} MiB with them, {bytes_each:.0f} B each")
    check(bytes_each < MOST, f"a promise takes {bytes_each:.0f} bytes")
    for holder in holders:
        holder.close()
