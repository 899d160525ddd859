"""A peer with no code in common with ours: chains, and the Response Cache after a lost session."""

import struct

from findings import Findings, expecter, in_every_form, root_peer
from layout import BACK, FH, FORW, SAVE, STATEID, ZERO8, counted
from peer import Peer, Request, Response
from rig import scenario


@scenario(timeout=60, where="server", loopback=True)
def peer_chains(rig):
    """Chains: form, failures in the middle, filehandles and state ids handed on.
    Shows DAFS-4.3-02, DAFS-4.3-03, DAFS-4.3-04, DAFS-4.3.1-03, DAFS-4.3.2-01, DAFS-4.3.2-02, DAFS-4.3.2-03,
    DAFS-4.3.2-04, DAFS-4.3.2-05, DAFS-4.3.2-07, DAFS-4.3.2-08, DAFS-4.3.2-10, DAFS-6.5.17-05, DAFS-6.5.34-10,
    DAFS-6.5.9-09, DAFS-4.1.3.1-02."""
    rig.expect(".*")
    port, findings = rig.serve().port, Findings()
    (rig.export / "dir").mkdir()
    (rig.export / "dir" / "file").write_bytes(b"content")
    for options in in_every_form():
        peer = Peer(port, requests=64, **options)
        peer.act_as()
        root = peer.root()

        def statuses(requests, **how):
            return [response.status for response in peer.chain(requests, **how)]

        def expect(requests, expected, what):
            findings.equal(statuses(requests), expected.split(), f"{options}: {what}")

        data = peer.walk("data")
        directory = peer.walk("data", "dir")
        handle = peer.walk("data", "dir", "file")
        read = [Request("GET_ROOT_HANDLE"), peer.lookup(names=["data"], flags=FH), peer.lookup(names=["dir"], flags=FH),
                peer.open(names=["file"], flags=FH), peer.read(count=100, flags=FH | STATEID), peer.getattr(flags=FH)]
        responses = peer.chain(read)
        findings.equal([r.status for r in responses], ["OK"] * 6, f"{options}: a walk, OPEN, READ and GETATTR")
        findings.equal(responses[4].raw(8, 7), b"content", "what was read")
        state = responses[3].raw(64, 8)
        findings.equal(responses[5].attributes()[2]["FILEHANDLE"], handle, "FILEHANDLE of the chain's file")
        expect([peer.close_file(handle, state), peer.read(count=1, flags=FH | STATEID)], "OK BAD_STATEID",
               "the state id of a CLOSE")
        expect([peer.lookup(root, ["data", "dir"]), peer.lookup(names=["nothing"], flags=FH), peer.getattr(flags=FH),
                peer.create(name="never", flags=FH)], "OK NOENT CHAIN_BROKEN CHAIN_FORM", "an error in the middle")
        expect([Request("NULL"), peer.getattr(flags=FH)], "OK NOFILEHANDLE", "no current filehandle")
        expect([peer.lookup(root, ["data"]), peer.read(count=1, flags=STATEID)], "OK BAD_STATEID",
               "no current state id")
        expect([Request("NULL"), Request("NULL", flags=64), Request("NULL")], "OK CHAIN_FORM CHAIN_BROKEN",
               "unknown flag")
        expect([Request("NULL"), Request("NULL", flags=FH), Request("NULL")], "OK CHAIN_FORM CHAIN_BROKEN",
               "FH with NULL")
        expect([Request("NULL"), peer.access(handle, flags=STATEID), Request("NULL")], "OK CHAIN_FORM CHAIN_BROKEN",
               "STATEID with ACCESS")
        expect([peer.getattr(handle), peer.create(directory, "no")], "OK CHAIN_FORM", "a modification after a fetch")
        expect([peer.getattr(handle), Request("NULL"), peer.write(handle, 0, b"x")], "OK OK CHAIN_FORM",
               "the same, later")
        expect([peer.getattr(handle), peer.lock(handle)], "OK BAD_STATEID", "a lock after a fetch is allowed")
        expect([Request("NULL"), Request("DISCONNECT"), Request("NULL")], "OK CHAIN_FORM CHAIN_BROKEN",
               "a special request")
        expect([Request("NULL"), Request("NULL"), peer.lookup(directory, ["x/y"]), Request("NULL")],
               "OK OK INVAL CHAIN_BROKEN", "malformed arguments")
        expect([Request("NULL"), Request("NULL", procedure=121), Request("NULL")], "OK NOTSUPP CHAIN_BROKEN",
               "an unknown procedure")
        expect([Request("NULL"), Request("NULL", cred=b"none"), Request("NULL")], "OK NO_CREDS CHAIN_BROKEN",
               "a bad credential")
        expect([Request("NULL"), Request("NULL", version=3), Request("NULL")], "OK ILLEGAL_PROT CHAIN_BROKEN",
               "a version")
        expect([peer.verify(handle, {"OBJECT_SIZE": 8}), peer.getattr(handle)], "NOT_SAME CHAIN_BROKEN",
               "NOT_SAME breaks")
        expect([peer.verify(handle, {"OBJECT_SIZE": 7}, name="NVERIFY"), peer.getattr(handle)], "SAME CHAIN_BROKEN",
               "SAME")
        expect([peer.verify(handle, {"OBJECT_SIZE": 7}), peer.getattr(flags=FH, bits=0)], "OK OK", "VERIFY in a chain")
        expect([Request("NULL", flags=SAVE), Request("NULL")], "OK OK", "SAVE on a simple request")
        expect([peer.getattr(handle, flags=SAVE), Request("NULL")], "CHAIN_FORM CHAIN_BROKEN", "SAVE on a fetch")
        expect([Request("NULL"), Request("NULL", flags=SAVE)], "OK CHAIN_FORM", "SAVE on the last")
        # Handles that pass through a chain, and the handles that LINK and RENAME hand on.
        tag = f"{options['order'] == '<'}{options['checksums']}{options['flags']}"
        expect([peer.create(data, f"d{tag}", attrs={"MODE": 0o755}),
                peer.open(names=[f"f{tag}"], create=0, mode=0o600, flags=FH),
                peer.write(data=b"abc", flags=FH | STATEID), peer.append(data=b"def", flags=FH | STATEID),
                Request("NULL"), peer.setattr(values={"MODE": 0o640}, flags=FH | STATEID),
                peer.lock(flags=FH | STATEID, kind=2, offset=0, length=5), peer.locku(flags=FH | STATEID),
                peer.downgrade(flags=FH | STATEID, access=1), peer.commit(flags=FH),
                peer.close_file(flags=FH | STATEID), peer.getattr(flags=FH)], " ".join(["OK"] * 12),
                "a file's life in one chain")
        made = peer.walk("data", f"d{tag}", f"f{tag}")
        expect([peer.lookup(data, [f"d{tag}"]), peer.link(made, flags=FH, name="second"),
                peer.lookup(names=["second"], flags=FH),
                peer.verify(values={"OBJECT_SIZE": 6}, flags=FH)], "OK OK OK OK", "LINK leaves its directory")
        # The target directory of RENAME is the current one, before it and after it. The source is another one.
        box = peer.walk("data", f"d{tag}")
        peer.must(peer.create(data, f"t{tag}", attrs={"MODE": 0o755}))
        expect([peer.lookup(data, [f"t{tag}"]), peer.rename(box, "second", flags=FH, new="third"),
                peer.remove(name="third", flags=FH), peer.readdir(flags=FH)], "OK OK OK OK", "RENAME, REMOVE, READDIR")
        findings.equal([sorted(path.name for path in (rig.export / f"{which}{tag}").iterdir()) for which in "dt"],
                       [[f"f{tag}"], []], "what is left")
        # A chain as long as the credits, sent at once; then two chains, one after the other.
        expect([Request("NULL")] * peer.granted, " ".join(["OK"] * peer.granted), "a chain of all credits")
        first = [peer.encode(Request("NULL"), flags=FORW, stream=0),
                 peer.encode(peer.lookup(root, ["no"]), flags=BACK, stream=1),
                 peer.encode(Request("NULL"), flags=FORW, stream=2), peer.encode(Request("NULL"), flags=BACK, stream=3)]
        peer.connection.send_raw(b"".join(b"".join(peer.connection.message(m)) for m in first))
        got = {}
        for _ in first:
            response = Response(peer.order, peer.connection.receive())
            got[response.stream] = response.status
        findings.equal(got, {0: "OK", 1: "NOENT", 2: "OK", 3: "OK"}, "two chains")
        # FORW whose successor lacks BACK: the successor fails with CHAIN_FORM, and its own successors are broken.
        findings.equal(peer.call(Request("NULL"), flags=BACK).status, "CHAIN_FORM", "BACK without FORW before it")
        findings.equal(peer.call(Request("NULL"), flags=FORW).status, "OK", "FORW")
        findings.equal(peer.call(Request("NULL"), flags=FORW).status, "CHAIN_FORM", "no BACK after FORW")
        findings.equal(peer.call(Request("NULL"), flags=BACK).status, "CHAIN_BROKEN", "the successor of that")
        findings.equal(peer.call(Request("NULL")).status, "OK", "after it")
        findings.equal(peer.call(Request("DISCONNECT"), flags=FORW).status, "CHAIN_FORM", "FORW on a special request")
        findings.equal(peer.call(Request("NULL"), flags=BACK).status, "CHAIN_BROKEN", "behind it")
        peer.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_cached(rig):
    """The Response Cache after a lost session; credentials and opens of a client that reconnects.
    Shows DAFS-6.2.8-01, DAFS-6.2.8-03, DAFS-6.2.8-05, DAFS-6.2.8-08, DAFS-6.2.8-09, DAFS-5.2.1-05, DAFS-5.2.5-01,
    DAFS-6.3.1-01, DAFS-6.3.1-02, DAFS-6.3.1-03, DAFS-6.3.2-01, DAFS-6.3.2-04, DAFS-6.3.3-01, DAFS-6.2.8-10 (an
    unsupported type), DAFS-4.3-04 (cache entries)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order in "<>":
        name = f"c{ord(order)}"
        peer, data = root_peer(server.port, order, name=name, cache=1)
        findings.equal(peer.limits["cache"], 1, "use_response_cache")
        old = peer.session_id
        made = peer.must(peer.create(data, name, attrs={"MODE": 0o755}), stream=4)
        kept = peer.must(peer.open(made.raw(0, 64), ["f"], 0, mode=0o600), stream=4)
        number = peer.next_seq[4] - 1 & 0xFFFF
        peer.chain([Request("GET_ROOT_HANDLE", flags=SAVE), peer.lookup(names=["data"], flags=FH | SAVE),
                    peer.setattr(values={"MODE": 0o755}, flags=FH)])
        saved = {stream: peer.next_seq[stream] - 1 & 0xFFFF for stream in (1, 2)}
        missing = peer.call(peer.remove(data, "never"), stream=5)
        refused = peer.next_seq[5] - 1 & 0xFFFF
        findings.equal(missing.status, "NOENT", "REMOVE")
        peer.must(Request("NULL"), stream=6)
        cred = peer.cred
        peer.connection.close()  # lost
        peer = Peer(server.port, order, name=name, cache=1)
        peer.cred = cred
        expect = expecter(peer, findings, order)
        expect(peer.getattr(data, 16), "OK", "with the credential of the lost session")
        for kind in ("CHECK_RESPONSE", "FETCH_RESPONSE"):
            def ask(session, stream, sequence, procedure, status, what, kind=kind):
                return expect(peer.response_of(kind, session, stream, sequence, procedure), status, what)

            ask(old, 4, number - 1 & 0xFFFF, "CREATE", "NOXID_MATCH", "a sequence number that was followed")
            again = ask(old, 4, number, "OPEN", "OK", "the last of stream 4")
            if kind == "FETCH_RESPONSE":
                findings.equal(again.message[40:], kept.message[40:], "the stored response")
            ask(old, 4, number, "CREATE", "NOXID_MATCH", "another procedure")
            ask(old, 4, number + 1 & 0xFFFF, "OPEN", "NOXID_MATCH", "one that never came")
            ask(old, 1, saved[1], "LOOKUP", "OK", "saved by CHF_SAVE")
            ask(old, 2, saved[2], "SETATTR_INLINE", "OK", "a modification in a chain")
            ask(old, 5, refused, "REMOVE", "NOENT" if kind == "FETCH_RESPONSE" else "OK", "a failure")
            ask(old, 6, peer.next_seq.get(6, 0xFFFE), "NULL", "NOXID_MATCH", "nothing saved")
            ask(old, 60000, 0, "NULL", "NOXID_MATCH", "a stream there never was")
            ask(b"no such!", 0, 0, "NULL", "UNKNOWN_SESSION", "an unknown session")
            ask(ZERO8, 0, 0, "NULL", "UNKNOWN_SESSION", "session zero")
            ask(peer.session_id, 0, 0, "NULL", "BAD_SESSION", "a connected session")
        # Both in one chain; a fetched failure breaks it.
        numbers = (old, 5, refused, "REMOVE")
        statuses = [r.status for r in peer.chain([peer.response_of("CHECK_RESPONSE", *numbers),
                                                  peer.response_of("FETCH_RESPONSE", *numbers),
                                                  Request("NULL")])]
        findings.equal(statuses, ["OK", "NOENT", "CHAIN_BROKEN"], "CHECK and FETCH in a chain")
        turned = Peer(server.port, "<" if order == ">" else ">", name=name)
        findings.equal(turned.call(turned.response_of("CHECK_RESPONSE", old, 0, 0, "NULL")).status, "BAD_SESSION",
                       "the other byte order")
        other = Peer(server.port, order, name="stranger")
        findings.equal(other.call(other.response_of("FETCH_RESPONSE", old, 0, 0, "NULL")).status, "BAD_SESSION",
                       "another client")
        findings.equal(other.call(Request("DISCARD_RESPONSES", old)).status, "NOT_AUTHORIZED", "another client")
        expect(Request("DISCARD_RESPONSES", b"no such!"), "UNKNOWN_SESSION")
        expect(Request("DISCARD_RESPONSES", peer.session_id), "BAD_SESSION", "a connected session")
        expect(Request("DISCARD_RESPONSES", old), "OK")
        found = peer.call(peer.response_of("CHECK_RESPONSE", old, 0, 0, "NULL")).status
        findings.check(found in ("UNKNOWN_SESSION", "NOXID_MATCH"), f"after DISCARD_RESPONSES: {found}")
        # The open still belongs to the client; a new verifier releases it.
        handle, state = kept.raw(0, 64), kept.raw(64, 8)
        expect(peer.read(handle, 0, 1, state), "OK", "an open of the lost session")
        again = Peer(server.port, order, name=name, verifier=b"reborn!!")
        again.act_as()
        found = again.call(again.read(handle, 0, 1, state)).status
        findings.check(found in ("BAD_STATEID", "STALE_STATEID", "EXPIRED"),
                       f"an open of the client's earlier life: {found}")
        findings.check(again.client_id != peer.client_id, "client ids of two lives")
        # DISCONNECT drops the cache.
        ending = Peer(server.port, order, name=name + "e", cache=1)
        ending.act_as()
        ending.must(ending.setattr(data, {"MODE": 0o755}))
        ended, last = ending.session_id, ending.next_seq[0] - 1 & 0xFFFF
        ending.must(Request("DISCONNECT"))
        ending.close()
        ending = Peer(server.port, order, name=name + "e", cache=1)
        found = ending.call(ending.response_of("CHECK_RESPONSE", ended, 0, last, "SETATTR_INLINE")).status
        findings.check(found in ("UNKNOWN_SESSION", "NOXID_MATCH"), f"after DISCONNECT: {found}")
        # Credentials.
        findings.equal(ending.credential(5, 5, [1] * 1025), "INVAL", "1025 groups")
        body = ending.layout(16).put(0, "I", 9)
        findings.equal(ending.call(Request("REGISTER_CRED", body.bytes)).status, "INVAL", "an unknown cred_type")
        body = ending.layout(16).put(0, "I", 2).item(4, struct.pack(order + "I", 3) + b"gss")
        findings.equal(ending.call(Request("REGISTER_CRED", body.bytes)).status, "NOTSUPP", "GSS")
        findings.equal(ending.call(Request("REGISTER_CRED", ending.layout(16).bytes)).status, "INVAL", "no name")
        for given, status in (("root", "OK"), ("nobody is so called", "NOT_AUTHORIZED"), (b"\xff\0", "NOT_AUTHORIZED")):
            body = ending.layout(16).item(4, counted(order, given))
            found = ending.call(Request("REGISTER_CRED", body.bytes)).status
            findings.check(found == status or status != "OK" and found in ("INVAL", "NO_CREDS"), f"name {given}: {found}")
        findings.equal(ending.call(Request("REGISTER_CRED", ending.layout(16).put(0, "I", 3).bytes)).status, "OK", "DEFAULT")
        handles = [ending.credential(5, 5, [n]) for n in range(3)]
        findings.check(all(isinstance(one, bytes) and any(one) for one in handles), f"handles {handles}")
        findings.equal(ending.call(Request("RELEASE_CRED", handles[0] + bytes(4))).status, "OK", "RELEASE_CRED")
        findings.equal(ending.call(Request("RELEASE_CRED", handles[0] + bytes(4))).status, "NO_CREDS", "released twice")
        findings.equal(ending.call(Request("NULL"), cred=handles[0]).status, "NO_CREDS", "NULL with it")
        few = Peer(server.port, order, name=name + "few", credentials=2)
        findings.equal([few.limits["credentials"], *(type(few.credential(n, n)) for n in range(2)),
                        few.credential(9, 9)],
                       [2, bytes, bytes, "RESOURCE"], "two credentials of two")
        for left in (peer, turned, other, again, ending, few):
            left.close()
    findings.finish()


@scenario(timeout=60, where="server", loopback=True)
def peer_restarts(rig):
    """A server that is killed and started: which state its client keeps and reclaims, and which responses it finds.
    Shows DAFS-5.2.4-01, DAFS-6.5.24-14, DAFS-4.4.1.2-27 (writes)."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order in "<>":
        peer, data = root_peer(server.port, order, name="survivor", cache=1)
        name = f"r{ord(order)}"
        handle, state = peer.opened(data, name, owner=b"mine")
        peer.must(peer.lock(handle, state, 2, 10, 10))
        peer.must(peer.write(handle, 0, b"data", state, 0))
        made = peer.must(peer.create(data, name + "d"), stream=3)
        old, number = peer.session_id, peer.next_seq[3] - 1 & 0xFFFF
        cred = peer.cred
        server.stop(9)
        server.start()
        findings.equal(peer.connection.ended(), None, "the end of the connection")
        peer = Peer(server.port, order, name="survivor", cache=1)
        expect = expecter(peer, findings, order)
        expect(peer.getattr(handle, 16), "OK", "a handle from before, by the session's own user")
        findings.equal(peer.call(Request("NULL"), cred=cred).status, "NO_CREDS", "a credential from before")
        peer.act_as()
        other, _ = root_peer(server.port, order, name="newcomer")
        for request in (peer.read(handle, 0, 1, state), peer.write(handle, 0, b"x", state),
                        peer.close_file(handle, state),
                        peer.lock(handle, state, 2, 10, 10)):
            found = peer.call(request).status
            findings.check(found in ("STALE_STATEID", "GRACE"), f"{request.name} with a state id from before: {found}")
        found = other.call(other.open(data, [name])).status
        findings.check(found in ("GRACE", "OK"), f"OPEN by another client: {found}")
        found = other.call(other.write(handle, 0, b"x")).status
        findings.equal(found, "GRACE", "a WRITE without a state id in the grace period")
        expect(peer.response_of("CHECK_RESPONSE", old, 3, number, "CREATE"), "OK", "a response from before")
        fetched = expect(peer.response_of("FETCH_RESPONSE", old, 3, number, "CREATE"), "OK", "a response from before")
        findings.equal(fetched.message[40:], made.message[40:], "the stored response")
        response = expect(peer.open(handle, claim=1, owner=b"mine"), "OK", "CLAIM_PREVIOUS")
        findings.equal((response.raw(0, 64), response.get("I", 96)), (handle, 0), "handle and component_count")
        state = response.raw(64, 8)
        expect(peer.lock(handle, state, 2, 10, 10, options=1), "OK", "RECLAIM")
        peer.must(peer.commit(handle))
        expect(Request("DISCARD_RESPONSES", old), "OK")
        _, his = other.opened(data, name, None, owner=b"his")  # the grace period is over: nothing is left to reclaim
        findings.equal(other.call(other.lock(handle, his, 2, 15, 1)).status, "DENIED",
                       "a lock against the reclaimed one")
        expect(peer.lock(handle, state, 2, 10, 10, options=1), "OK", "RECLAIM of a lock that no other client could take")
        expect(peer.close_file(handle, state), "OK")
        for left in (peer, other):
            left.must(Request("DISCONNECT"))
            left.close()
    findings.finish()
