"""Shared by the scenarios of the peer: differences that are gathered and reported at the end, and ways to connect."""

from iwarp import CRC
from peer import Peer
from rig import Failure


class Findings:
    """Differences, all reported at the end."""

    def __init__(self):
        self.found = []

    def equal(self, found, expected, what):
        if found != expected:
            self.found.append(f"{what}: {found}, expected {expected}")

    def check(self, condition, what):
        if not condition:
            self.found.append(what)

    def finish(self):
        if self.found:
            raise Failure("; ".join(self.found))


def in_every_form():
    """Byte orders with and without checksums and CRC."""
    for order in "<>":
        for checksums, flags in ((False, 0), (True, 0), (True, CRC)):
            yield {"order": order, "checksums": checksums, "flags": flags}


def root_peer(port, order="<", **options):
    peer = Peer(port, order, **{"request_size": 1 << 16, **options})
    peer.act_as()
    return peer, peer.walk("data")


def expecter(peer, findings, said):
    """A function that sends a request and compares the status."""

    def expect(request, status, what=""):
        response = peer.call(request)
        findings.equal(response.status, status, f"{said} {request.name} {what}")
        return response

    return expect
