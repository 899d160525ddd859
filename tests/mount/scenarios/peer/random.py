"""A peer with no code in common with ours: anything, in any order, on several sessions at once."""

import os
import random
import struct

from findings import Findings, root_peer
from layout import ALL_FATTR, BACK, BIT, FH, FORW, PROC, SAVE, STATEID, ZERO8, ZERO64
from peer import Peer, Request, Response
from rig import check, note, scenario

NAMES = ["a", "b", "c", "sub", "deep", "link", "", ".", "..", b"x/y", b"\xff", "n" * 300, "\u263a"]
# Procedures whose arguments may be any bytes: they use no key of memory and do not end the session.
HARMLESS = [name for name in PROC if not any(part in name for part in ("CONNECT", "DIRECT", "BATCH"))]
SIZES = [0, 1, 7, 8, 511, 4096, 5000, 2**31, 2**32 - 1]
OFFSETS = [0, 1, 100, 4096, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


class Dice:
    """Random requests, with handles and state ids from earlier responses."""

    def __init__(self, peer, data, dice):
        self.peer, self.roll = peer, dice
        self.handles, self.states = [ZERO64, b"\xff" * 64, peer.root(), data], [b"\1" * 8, ZERO8]
        self.stag = peer.register(bytes(20_000))

    def handle(self):
        good = self.roll.random() < 0.9
        return self.roll.choice(self.handles[-12:] if good else self.handles[:4])

    def state(self):
        good = self.roll.random() < 0.9
        return self.roll.choice(self.states[-6:] if good else self.states[:2])

    def name(self):
        return self.roll.choice(NAMES[:6] if self.roll.random() < 0.85 else NAMES)

    def segments(self):
        cuts = [self.roll.randrange(0, 3000) for _ in range(self.roll.randrange(0, 5))]
        return [self.peer.segment(self.stag, sum(cuts[:index]), cut) for index, cut in enumerate(cuts)]

    def attributes(self):
        chosen = {"MODE": 0o644, "OBJECT_SIZE": self.roll.choice(SIZES[:7]), "OWNER": "0", "TIME_MODIFY_SET": (5, 5),
                  "HIDDEN": 1}
        return {name: value for name, value in chosen.items()
                if self.roll.random() < (0.05 if name == "HIDDEN" else 0.3)}

    def request(self):
        p, roll = self.peer, self.roll
        handle, state, name = self.handle(), self.state(), self.name()
        size, offset, bits = roll.choice(SIZES), roll.choice(OFFSETS), roll.getrandbits(64)
        small = bytes(roll.randrange(0, 300))
        return roll.choice([
            lambda: p.lookup(handle, [self.name() for _ in range(roll.randrange(1, 3))]),
            lambda: p.open(handle, [name], roll.choice([None, 0, 1, 2]), access=roll.choice([1, 2, 3, 3, 0, 4]),
                           deny=roll.choice([0, 0, 0, 0, 0, 1, 5]),
                           owner=roll.choice([b"o", b"", b"other"]), claim=roll.choice([0, 0, 0, 0, 1, 2, 4])),
            lambda: p.open(handle, [name], 0, mode=0o666), lambda: p.open(handle, [name]),
            lambda: p.close_file(handle, state), lambda: p.getattr(handle, bits & ALL_FATTR),
            lambda: p.fsattr(handle, bits),
            lambda: p.setattr(handle, self.attributes(), state), lambda: p.verify(handle, self.attributes()),
            lambda: p.read(handle, offset, size, state), lambda: p.write(handle, roll.randrange(0, 9000), small, state,
                                                                         roll.randrange(0, 4)),
            lambda: p.append(handle, small, state, roll.choice([0, 1, 2, 2, 3])),
            lambda: p.read_direct(handle, offset, roll.randrange(0, 9000),
                                                                                               self.segments(), state),
            lambda: p.write_direct(handle, roll.randrange(0, 9000), roll.randrange(0, 4000), self.segments(), state),
            lambda: p.append_direct(handle, roll.randrange(0, 4000), p.segment(self.stag, 0, 3000), state),
            lambda: p.create(handle, name, roll.randrange(0, 11), link="to" if roll.random() < 0.5 else None),
            lambda: p.remove(handle, name, roll.randrange(0, 3)),
            lambda: p.rename(handle, name, self.handle(), self.name()),
            lambda: p.link(handle, self.handle(), name),
            lambda: p.readdir(handle, roll.choice([0, 0, 1, 5, bits]), ZERO8, 0, size, bits),
            lambda: p.readdir(handle, maxcount=size, bits=BIT["OBJECT_TYPE"], segments=self.segments()),
            lambda: p.lock(handle, state, roll.randrange(0, 7), offset, size, roll.choice([0, 0, 1, 2, 16])),
            lambda: p.locku(handle, state, roll.randrange(0, 7), offset, size),
            lambda: p.lockt(handle, roll.randrange(0, 7), b"o", offset, size),
            lambda: p.downgrade(handle, state, roll.randrange(0, 5)), lambda: p.commit(handle, offset, size),
            lambda: p.access(handle, roll.randrange(0, 80)),
            lambda: p.handle_only(roll.choice(["LOOKUPP", "OPENATTR", "READLINK_INLINE"]), handle),
            lambda: Request("NULL"),
            lambda: p.one_buffer("GETATTR_DIRECT", handle, p.segment(self.stag, 0, 2000), bits),
            lambda: p.one_buffer("SETATTR_DIRECT", handle, p.segment(self.stag, 0, roll.randrange(0, 200)),
                                 state=state),
            lambda: p.batch([(handle, number, state, roll.randrange(0, 4), [(0, 100, 0)],
                              [p.segment(self.stag, 0, 100)], None)
                             for number in range(roll.randrange(0, 4))], roll.randrange(0, 2)),
            lambda: Request("NULL", procedure=roll.choice([PROC[name] for name in HARMLESS] + [0, 107, 999, 1000,
                                                                                               1003]),
                            flags=roll.getrandbits(6)),
            lambda: Request(roll.choice(HARMLESS), roll.randbytes(8 * roll.randrange(0, 30))),
        ])()


def spoiled(message, roll):
    """Changes some bytes after the header."""
    message = bytearray(message)
    for _ in range(roll.randrange(1, 4)):
        if len(message) > 40:
            message[roll.randrange(40, len(message))] = roll.getrandbits(8)
    return bytes(message)


@scenario(timeout=120, where="server", loopback=True)
def peer_random(rig):
    """Random requests, alone and in chains, spoiled and whole: each gets its one answer, and the server lives on.
    Shows DAFS-3.1.2.3.1-01 (server)."""
    rig.expect(".*")
    seed = int.from_bytes(os.urandom(4), "little")
    note(f"seed {seed}")
    roll = random.Random(seed)
    server, findings = rig.serve(), Findings()
    (rig.export / "sub" / "deep").mkdir(parents=True)
    os.symlink("a", rig.export / "link")
    tables = []
    for number in range(4):
        peer, data = root_peer(server.port, "<>"[number % 2], name=f"random{number}", requests=24, cache=number % 2)
        tables.append(Dice(peer, data, roll))
    statuses = {}
    for _ in range(1500 if rig.full else 300):
        table = roll.choice(tables)
        peer = table.peer
        streams = roll.sample(range(peer.granted), roll.randrange(1, min(peer.granted, 9)))
        chained = roll.random() < 0.4
        stream_bytes = b""
        for index, stream in enumerate(streams):
            request = table.request()
            flags = request.header.get("flags", 0)
            if chained:
                flags |= (FORW if index < len(streams) - 1 else 0) | (BACK if index else 0)
                flags |= roll.choice([0, 0, FH, FH | STATEID, SAVE]) if index else 0
            message = peer.encode(request, stream=stream, flags=flags & (0xFFFF if chained else ~(FORW | BACK)))
            if roll.random() < 0.05 and request.name in HARMLESS:
                message = spoiled(message, roll)
            peer.outstanding.append((struct.unpack_from(peer.order + "HH", message, 12), message[16:24]))
            stream_bytes += b"".join(peer.connection.message(message))
        while stream_bytes:
            cut = roll.randrange(1, 4000)
            peer.connection.send_raw(stream_bytes[:cut])
            stream_bytes = stream_bytes[cut:]
        for _ in streams:
            response = peer.result()
            statuses[response.status] = statuses.get(response.status, 0) + 1
            check(not response.status.isdigit(), f"status {response.status}, which docs/wire.md does not have")
            if response.status == "OK" and len(response.body) == 152:
                table.handles.append(response.raw(0, 64))
                table.states.append(response.raw(64, 8))
            elif response.status == "OK" and len(response.body) in (72, 88):
                table.handles.append(response.raw(0, 64))
    note(f"statuses: {statuses}")
    check("OK" in statuses and len(statuses) > 10, f"statuses {statuses}")
    findings.check("SERVERFAULT" not in statuses, f"SERVERFAULT {statuses.get('SERVERFAULT')} times, seed {seed}")
    check(server.process.poll() is None, f"the server ended, seed {seed}")
    for table in tables:
        table.peer.close()
    findings.finish()
