"""Peers that send garbage, half messages or nothing: each costs the server one session and no more."""

import os
import random
import socket
import struct

import processes
from rig import check, equal, scenario

MPA_REQUEST = b"MPA ID Req Frame"  # RFC 5044, 7.1


def mpa_request(private=b"", flags=0x40, revision=1, length=None):
    return MPA_REQUEST + struct.pack("!BBH", flags, revision, len(private) if length is None else length) + private


def openings(dice):
    """Returns the first bytes of a hostile peer."""
    yield b""
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"\0" * 4096
    yield b"\xff" * 65536
    yield MPA_REQUEST[:7]
    yield MPA_REQUEST + b"\x40"
    yield mpa_request(length=65535)
    yield mpa_request(b"x" * 512, revision=99)
    yield mpa_request(dice.randbytes(512), flags=0xFF)
    yield mpa_request()
    for _ in range(12):  # a good start, then an FPDU of chance bytes
        body = dice.randbytes(dice.randrange(1, 2000))
        yield mpa_request() + struct.pack("!H", dice.choice([0, 1, 17, len(body), 65535])) + body
    for _ in range(12):
        yield dice.randbytes(dice.randrange(1, 5000))


@scenario(timeout=120, where="mount", loopback=True)
def garbage(rig):
    """Garbage on a hundred connections, while a mount of the same server goes on working."""
    rig.expect(".*")  # the server may log each of them
    server = rig.servers[0]
    for warm in range(4):  # so that the server makes its one-time allocations
        socket.create_connection(("127.0.0.1", server.port)).close()
        (rig.root / f"warm{warm}").write_text("x")
    baseline = server.usage()
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    dice = random.Random(seed)
    held = []
    for round_number in range(3):
        for number, data in enumerate(openings(dice)):
            peer = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            try:
                peer.sendall(data)
                if number % 3 == 0:
                    peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server closed first
            if number % 3 == 1:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST at close
            if number % 2:
                peer.close()
            else:
                held.append(peer)
        (rig.root / f"alive{round_number}").write_text("still served")
        equal((rig.root / f"alive{round_number}").read_text(), "still served", "a file while garbage comes in")
    check(server.process.poll() is None, "garbage ended the server")
    for peer in held:
        peer.close()
    _returns_to(rig, server, baseline)


@scenario(timeout=120, where="mount", loopback=True)
def silent(rig):
    """Two hundred peers that connect and send nothing, or half a message, do not keep others out."""
    rig.expect(".*")
    server = rig.servers[0]
    (rig.root / "file").write_text("x")
    baseline = server.usage()
    peers = []
    for number in range(200):
        peer = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        if number % 2:
            peer.sendall(mpa_request()[:number % 20])
        peers.append(peer)
    second = rig.base / "second"
    second.mkdir()
    rig.mount(server, point=second)
    (second / "through").write_text("second mount")
    equal((rig.root / "through").read_text(), "second mount", "a file of a second mount")
    rig.umount(second)
    for peer in peers:
        peer.close()
    _returns_to(rig, server, baseline)


SLACK = 12  # descriptors: the mount's control session, which comes later, and files that the server keeps open


def _returns_to(rig, server, baseline):
    """Waits until the server holds no more threads than before, and hardly more descriptors."""

    def settled():
        now = server.usage()
        return now["threads"] <= baseline["threads"] and now["descriptors"] <= baseline["descriptors"] + SLACK

    check(processes.wait_until(settled, 20 * rig.slowness, 0.1), f"before {baseline}, after {server.usage()}")
