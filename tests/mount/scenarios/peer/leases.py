"""A peer with no code in common with ours: leases, and the state that is left after they expire."""

import time

from findings import Findings, root_peer
from peer import Peer, Request
from rig import check, scenario

LEASE = 1.5  # seconds


@scenario(timeout=60, where="server", loopback=True)
def peer_leases(rig):
    """Any request on any session of a client renews all its leases; without one, other clients may take its locks.
    Shows DAFS-4.4.1.2-21, DAFS-4.4.1.2-22, DAFS-4.4.1.2-23, DAFS-4.4.1.2-32, DAFS-4.4.1.1-05."""
    rig.expect(".*")
    server, findings = rig.serve(arguments=("--lease-time", str(LEASE))), Findings()
    peer, data = root_peer(server.port, name="holder")
    handle, state = peer.opened(data, "held", owner=b"holder")
    peer.must(peer.lock(handle, state, 2, 0, 10))
    second = Peer(server.port, name="holder")  # another session of the same client
    mate, _ = root_peer(server.port, name="mate")
    _, his = mate.opened(data, "held", None, owner=b"mate")

    def wanted():
        return mate.call(mate.lock(handle, his, 2, 0, 10)).status

    # The session with the state is silent, and the client's other session renews the lease. Every kind of request
    # renews it, a failed one too.
    end = time.monotonic() + 2.5 * LEASE
    requests = [Request("NULL"), second.getattr(bytes(64), 16), Request("GET_ROOT_HANDLE")]
    while time.monotonic() < end:
        second.call(requests[0])
        requests.append(requests.pop(0))
        findings.equal(wanted(), "DENIED", "a lock whose holder's lease is renewed on another session")
        time.sleep(LEASE / 5)
    findings.equal(peer.call(peer.read(handle, 0, 1, state)).status, "OK", "I/O with the state id that was kept")
    # Then both are silent. The server must not expire the lease early.
    start = time.monotonic()
    while wanted() == "DENIED":
        check(time.monotonic() < start + 20 * LEASE, "the lock of a silent client is never given to another")
        time.sleep(LEASE / 20)
    findings.check(time.monotonic() - start >= LEASE * 0.8,
                   f"lease of {LEASE} s over after {time.monotonic() - start:.2f} s")
    found = peer.call(peer.read(handle, 0, 1, state)).status
    findings.equal(found, "EXPIRED", "I/O with the state id of a client whose lease is over")
    findings.equal(peer.call(peer.lock(handle, state, 2, 100, 1)).status, "EXPIRED", "a lock by it")
    # The client may open the file again.
    _, state = peer.opened(data, "held", None, owner=b"holder")
    findings.equal(peer.call(peer.lock(handle, state, 2, 100, 1)).status, "OK", "after another OPEN")
    for one in (peer, second, mate):
        one.close()
    findings.finish()
