"""A peer with no code in common with ours: opens, shares and locks."""

from findings import Findings, expecter, root_peer
from layout import BIT, ZERO8, attributes
from peer import Peer, Request
from rig import scenario


def two_clients(port, findings):
    """Yields for both byte orders: one client, the export, another client, and the checks of their responses."""
    for order in "<>":
        peer, data = root_peer(port, order)
        mate, _ = root_peer(port, order, name="mate")
        yield order, peer, data, mate, expecter(peer, findings, order), expecter(mate, findings, order + " mate")


@scenario(timeout=60, where="server", loopback=True)
def peer_opens(rig):
    """OPEN in every create mode and with every claim, shares, keys, downgrade, state ids old and wrong.
    Shows DAFS-4.4.1.2-09, DAFS-4.4.1.2-10, DAFS-4.4.1.2-42, DAFS-4.4.1.2-49, DAFS-4.4.1.2-50, DAFS-6.5.24-04,
    DAFS-6.5.24-05, DAFS-6.5.24-06, DAFS-6.5.24-07, DAFS-6.5.24-13, DAFS-6.5.24-24, DAFS-6.5.24-29, DAFS-6.5.26-01,
    DAFS-6.5.24-25, DAFS-6.5.26-02, DAFS-6.5.33-04, DAFS-6.5.33-05, DAFS-6.5.33-08, DAFS-6.5.7-02."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order, peer, data, mate, expect, also in two_clients(server.port, findings):
        tag = f"o{ord(order)}"

        def size(name):
            return (rig.export / name).stat().st_size

        # Create modes.
        expect(peer.open(data, [tag]), "NOENT")
        expect(peer.open(data, [tag], 3), "INVAL", "createmode 3")
        expect(peer.open(data, [tag], open_type=2), "INVAL", "open_type 2")
        expect(peer.open(data, [tag], 1, attrs={"MODE": 0o640, "OBJECT_SIZE": 7}), "OK", "GUARDED with attributes")
        findings.equal((size(tag), (rig.export / tag).stat().st_mode & 0o7777), (7, 0o640), "what GUARDED made")
        expect(peer.open(data, [tag], 1), "EXIST", "GUARDED again")
        expect(peer.open(data, [tag], 0, attrs={"MODE": 0o600, "OBJECT_SIZE": 3}), "OK",
               "UNCHECKED: attributes are ignored")
        findings.equal((size(tag), (rig.export / tag).stat().st_mode & 0o7777), (7, 0o640), "what it left")
        expect(peer.open(data, [tag], 0, attrs={"OBJECT_SIZE": 0}), "OK", "UNCHECKED with size 0")
        findings.equal(size(tag), 0, "size after that")
        expect(peer.open(data, [tag], 2, verifier=b"12345678"), "EXIST", "EXCLUSIVE of what GUARDED made")
        first = expect(peer.open(data, [tag + "x"], 2, verifier=b"12345678"), "OK", "EXCLUSIVE")
        second = expect(peer.open(data, [tag + "x"], 2, verifier=b"12345678"), "OK", "EXCLUSIVE, repeated")
        findings.equal(second.raw(0, 72), first.raw(0, 72), "handle and state id of both")
        expect(peer.open(data, [tag + "x"], 2, verifier=b"12345679"), "EXIST", "EXCLUSIVE, another verifier")
        # Arguments out of range.
        for wrong in ({"access": 0}, {"access": 4}, {"access": 2**32 - 1}, {"deny": 4}, {"key_type": 1},
                      {"key_type": 2},
                      {"key_type": 4}, {"delete": 2}, {"claim": 5}, {"claim": 2**32 - 1}, {"owner": b"o" * 1025}):
            expect(peer.open(data, [tag], **wrong), "INVAL", str(wrong)[:40])
        for claim in (1, 2, 3):
            expect(peer.open(data, [tag], 0, claim=claim), "INVAL", f"claim {claim} with create")
        expect(peer.open(data, claim=4), "INVAL", "CLAIM_CREATE_UNLINKED without create")
        expect(peer.open(data, create=2, claim=4), "INVAL", "CLAIM_CREATE_UNLINKED, EXCLUSIVE")
        for claim in (2, 3):
            found = peer.call(peer.open(data, [tag], claim=claim))
            known = ("NOTSUPP", "BAD_STATEID", "EXPIRED", "INVAL")
            findings.check(found.status in known, f"claim {claim}: {found.status}")
            findings.equal(len(found.message), 40, f"length with claim {claim}")
        # The server compares owners byte for byte; the empty owner is valid.
        handle, state = peer.opened(data, tag, owner=b"")
        findings.equal(peer.opened(data, tag, owner=b""), (handle, state), "a second OPEN of one owner")
        findings.check(peer.opened(data, tag, owner=b"\0")[1] != state, "owners that differ")
        findings.check(mate.opened(data, tag, owner=b"")[1] != state, "clients that differ")
        also(mate.close_file(handle, state), "BAD_STATEID", "of another client")
        also(mate.read(handle, 0, 1, state), "BAD_STATEID", "of another client")
        expect(peer.close_file(handle, ZERO8), "BAD_STATEID", "no state id")
        expect(peer.close_file(handle, b"\xff" * 8), "BAD_STATEID", "a state id of the future")
        expect(peer.close_file(peer.walk("data", tag + "x"), state), "BAD_STATEID", "of another file")
        expect(peer.close_file(handle, state), "OK", "once for both")
        expect(peer.close_file(handle, state), "BAD_STATEID", "closed")
        expect(peer.read(handle, 0, 1, state), "BAD_STATEID", "closed")
        _, newer = peer.opened(data, tag, owner=b"")
        findings.check(newer != state, "a state id given out twice")
        for request in (peer.read(handle, 0, 1, state), peer.write(handle, 0, b"x", state),
                        peer.close_file(handle, state),
                        peer.downgrade(handle, state), peer.lock(handle, state), peer.locku(handle, state),
                        peer.setattr(handle, {"OBJECT_SIZE": 0}, state)):
            expect(request, "OLD_STATEID", "superseded")
        also(mate.read(handle, 0, 1, state), "BAD_STATEID", "an old one of another client")
        expect(peer.close_file(handle, newer), "OK")
        # The file is closed by all now: shares between two clients.
        for owner in (b"\0", b"owner"):
            expect(peer.close_file(handle, peer.opened(data, tag, owner=owner)[1]), "OK")
        expect(peer.close_file(handle, peer.opened(data, tag, owner=b"")[1]), "OK")
        mate.must(mate.close_file(handle, mate.opened(data, tag, owner=b"")[1]))
        for access in (1, 2, 3):
            for deny in (0, 1, 2, 3):
                _, held = peer.opened(data, tag, None, access=access, deny=deny)
                for access2 in (1, 2, 3):
                    for deny2 in (0, 1, 2, 3):
                        wanted = "DENIED" if deny & access2 or deny2 & access else "OK"
                        response = also(mate.open(data, [tag], access=access2, deny=deny2), wanted,
                                        f"{access} {deny} {access2} {deny2}")
                        if wanted == "OK" and response.status == "OK":
                            mate.must(mate.close_file(handle, response.raw(64, 8)))
                for request, bit in ((mate.read(handle, 0, 1), 1), (mate.write(handle, 0, b"x"), 2),
                                     (mate.append(handle, b"x"), 2),
                                     (mate.setattr(handle, {"OBJECT_SIZE": 0}), 2)):
                    also(request, "DENIED" if deny & bit else "OK", f"without a state id, denied {deny}")
                peer.must(peer.close_file(handle, held))
        # Requests that need more access than their open has.
        _, reader = peer.opened(data, tag, None, access=1)
        expect(peer.write(handle, 0, b"x", reader), "ACCES", "with an open for reading")
        expect(peer.append(handle, b"x", reader), "ACCES", "with an open for reading")
        # Upgrade by a second OPEN; downgrade; INVAL for access that is not in effect.
        _, again = peer.opened(data, tag, None, access=2, deny=1)
        findings.equal(again, reader, "the state id of an upgrade")
        expect(peer.write(handle, 0, b"x", reader), "OK", "after the upgrade")
        also(mate.open(data, [tag], access=1), "DENIED", "the union of denials")
        expect(peer.downgrade(handle, reader, 4, 0), "INVAL", "access 4")
        expect(peer.downgrade(handle, reader, 0, 0), "INVAL", "access 0")
        expect(peer.downgrade(handle, reader, 1, 2), "INVAL", "a deny that is not in effect")
        expect(peer.downgrade(handle, reader, 1, 0, key=5), "INVAL", "a key that is not in effect")
        expect(peer.downgrade(handle, reader, 1, 0), "OK")
        expect(peer.write(handle, 0, b"x", reader), "ACCES", "after the downgrade")
        expect(peer.downgrade(handle, reader, 3, 0), "INVAL", "no way back by OPEN_DOWNGRADE")
        expect(peer.downgrade(handle, ZERO8), "BAD_STATEID")
        expect(peer.close_file(handle, reader), "OK")
        # Share keys.
        _, keyed = peer.opened(data, tag, None, key=7)
        also(mate.open(data, [tag], key=8), "KEY_MISMATCH", "another key")
        for more in ({}, {"key": 7}):
            response = also(mate.open(data, [tag], **more), "OK", f"keys {more}")
            mate.must(mate.close_file(handle, response.raw(64, 8)))
        expect(peer.close_file(handle, keyed), "OK")
        # Delete dispositions.
        _, kept = peer.opened(data, tag, None, delete=1)
        also(mate.remove(data, tag), "DENYDISP_CONFLICT", "DELETE_DENY")
        also(mate.remove(data, tag, 1), "DENYDISP_CONFLICT", "CHECK_OPEN")
        expect(peer.close_file(handle, kept), "OK")
        _, kept = peer.opened(data, tag, None)
        also(mate.remove(data, tag, 1), "DENYDISP_CONFLICT", "CHECK_OPEN")
        expect(peer.write(handle, 0, b"kept", kept), "OK")
        also(mate.remove(data, tag), "OK", "of an open file")
        also(mate.lookup(data, [tag]), "NOENT")
        findings.equal(peer.must(peer.read(handle, 0, 9, kept)).raw(8, 4), b"kept", "data of a removed file")
        findings.equal(peer.must(peer.getattr(handle, BIT["NUM_LINKS"])).attributes()[2]["NUM_LINKS"], 0, "its links")
        expect(peer.close_file(handle, kept), "OK")
        expect(peer.getattr(handle, 16), "STALE", "after the last CLOSE")
        # Without a name, then with one.
        response = expect(peer.open(data, create=0, mode=0o600, claim=4), "OK", "CLAIM_CREATE_UNLINKED")
        unnamed, state = response.raw(0, 64), response.raw(64, 8)
        findings.equal((response.get("I", 96), response.get("QQI", 72)), (0, (0, 0, 0)),
                       "component_count and change_info")
        expect(peer.write(unnamed, 0, b"named later", state), "OK")
        expect(peer.link(unnamed, data, tag + "named"), "OK")
        expect(peer.close_file(unnamed, state), "OK")
        findings.equal((rig.export / (tag + "named")).read_bytes(), b"named later", "the file that got a name")
        # CLAIM_PREVIOUS outside of a grace period.
        found = peer.call(peer.open(unnamed, claim=1)).status
        findings.check(found in ("GRACE", "OK", "NOTSUPP", "INVAL", "STALE_CLIENTID", "EXPIRED", "BAD_STATEID", "PERM"),
                       f"CLAIM_PREVIOUS: {found}")
        expect(peer.open(unnamed, claim=1, delegation=3), "INVAL", "an unknown delegation type")
        # DELEGRETURN without a delegation.
        found = peer.call(Request("DELEGRETURN", b"\1" * 8)).status
        findings.check(found in ("BAD_STATEID", "STALE_STATEID", "OLD_STATEID", "NOTSUPP"), f"DELEGRETURN: {found}")
        peer.close()
        mate.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_locks(rig):
    """LOCK, LOCKT, LOCKU: every type, ranges at the bounds, exact reports of conflicts, options.
    Shows DAFS-6.5.18-01, DAFS-6.5.18-04, DAFS-6.5.18-05, DAFS-6.5.18-06, DAFS-6.5.18-08, DAFS-6.5.19-01,
    DAFS-6.5.19-02, DAFS-6.5.20-01, DAFS-4.4.1.2-12, DAFS-4.4.1.2-46."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order, peer, data, mate, expect, also in two_clients(server.port, findings):
        name = f"l{ord(order)}"
        handle, mine = peer.opened(data, name, owner=b"mine \0 owner")
        _, his = mate.opened(data, name, owner=b"his")
        top = 2**64 - 1

        def conflict(response, client, owner, offset, length, kind, what):
            where = response.get("I", 8)
            found = (response.raw(0, 8), response.string(8) if where else b"", *response.get("QQI", 16))
            findings.equal(found, (client, owner, offset, length, kind), f"{order} {what}")

        for kind in (0, 6, 2**32 - 1):
            expect(peer.lock(handle, mine, kind), "INVAL", f"type {kind}")
            expect(peer.locku(handle, mine, kind), "INVAL", f"type {kind}")
            expect(peer.lockt(handle, kind), "INVAL", f"type {kind}")
        expect(peer.locku(handle, mine, 5), "INVAL", "type 5")
        expect(peer.lockt(handle, 5), "INVAL", "type 5")
        for offset, length, status in ((0, 0, "INVAL"), (1, top - 1, "OK"), (2, top - 1, "OK"), (3, top - 1, "INVAL"),
                                       (top, 1, "OK"), (top, 2, "INVAL"),
                                       (top, top, "OK"), (0, top, "OK"), (5, top, "OK"), (2**63, 2**63, "OK"),
                                       (2**63, 2**63 + 1, "INVAL")):
            said = f"{offset:#x} {length:#x}"
            expect(peer.lock(handle, mine, 2, offset, length), status, said)
            expect(peer.lockt(handle, 2, b"mine \0 owner", offset, length), status, said)
            expect(peer.locku(handle, mine, 2, offset, length), status, said)
        for options, status in ((0x10, "INVAL"), (2**31, "INVAL")):
            expect(peer.lock(handle, mine, options=options), status, f"options {options:#x}")
        for options in (2, 4, 8, 6, 3, 5, 9):
            found = peer.call(peer.lock(handle, mine, options=options)).status
            findings.check(found in ("NOTSUPP", "OK", "GRACE", "INVAL", "EXPIRED"), f"options {options}: {found}")
            peer.must(peer.locku(handle, mine))
        expect(peer.lock(handle, ZERO8), "BAD_STATEID", "no state id")
        expect(peer.locku(handle, ZERO8), "BAD_STATEID", "no state id")
        expect(peer.lock(handle, his), "BAD_STATEID", "of another client")
        # Shared and exclusive, blocking or not.
        for first, second, both in ((1, 1, True), (1, 2, False), (2, 1, False), (2, 2, False), (3, 3, True),
                                    (3, 4, False), (4, 3, False)):
            response = expect(peer.lock(handle, mine, first, 10, 20), "OK", f"type {first}")
            findings.equal((len(response.message), response.raw(0, 40)), (80, bytes(40)), "result of LOCK")
            for request in (mate.lock(handle, his, second, 15, 1), mate.lockt(handle, second, b"his", 15, 1)):
                response = also(request, "OK" if both else "DENIED", f"{first} then {second}")
                if not both:
                    kind = 1 if first in (1, 3) else 2
                    conflict(response, peer.client_id, b"mine \0 owner", 10, 20, kind,
                             f"{request.name} {first} {second}")
            also(mate.lockt(handle, second, b"his", 30, 1), "OK", "beside it")
            also(mate.lockt(handle, second, b"his", 9, 1), "OK", "beside it")
            if second in (3, 4) and not both:
                also(mate.lock(handle, his, 5, 15, 1), "OK", "ABORT of the wait")
            also(mate.locku(handle, his, 2, 0, top), "OK")
            expect(peer.locku(handle, mine, first, 10, 20), "OK")
        # A part of a range unlocked, converted, to the end of the file.
        expect(peer.lock(handle, mine, 2, 0, top), "OK")
        expect(peer.locku(handle, mine, 2, 100, 100), "OK")
        also(mate.lock(handle, his, 2, 100, 100), "OK", "the hole")
        conflict(also(mate.lockt(handle, 2, b"his", 0, top), "DENIED"), peer.client_id, b"mine \0 owner", 0, 100, 2,
                 "the part before")
        conflict(also(mate.lockt(handle, 2, b"his", 200, top), "DENIED"), peer.client_id, b"mine \0 owner", 200, top, 2,
                 "the part after")
        conflict(expect(peer.lock(handle, mine, 1, 150, 10), "DENIED"), mate.client_id, b"his", 100, 100, 2,
                 "the mate's")
        expect(peer.locku(handle, mine, 2, 0, top), "OK")
        expect(peer.locku(handle, mine, 2, 0, top), "OK", "nothing left")
        # CLOSE releases locks; so does the end of the client's open.
        also(mate.close_file(handle, his), "OK", "with a lock held")
        expect(peer.lock(handle, mine, 2, 0, top), "OK", "what the mate held")
        expect(peer.close_file(handle, mine), "OK")
        also(mate.lockt(handle, 2, b""), "OK", "the empty owner, a file that no client has open")
        # If an owner does not fit the response, the server must neither hang nor report another owner.
        owner = b"o" * 1024
        big, state = peer.opened(data, name, owner=owner)
        expect(peer.lock(big, state, 2, 0, top), "OK", "an owner of 1024 bytes")
        conflict(also(mate.lockt(handle, 1, b"his"), "DENIED"), peer.client_id, owner, 0, top, 2, "a long owner")
        expect(peer.lockt(big, 2, b"o" * 1025), "INVAL", "an owner of 1025 bytes")
        small = Peer(server.port, order, name="small", response_size=1024)
        small.act_as()
        found = small.call(small.lockt(big, 1, b"his")).status
        findings.equal(found, "TOOSMALL", "a conflict that does not fit")
        # A lock for writing needs an open for writing.
        _, reader = peer.opened(data, name, None, access=1, owner=b"reader")
        expect(peer.close_file(big, state), "OK")
        expect(peer.lock(big, reader, 1), "OK", "read lock by a reader")
        for left in (peer, mate, small):
            left.close()
    findings.finish()
