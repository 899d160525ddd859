"""A peer with no code in common with ours: attributes of files and file systems, ACCESS."""

import os
import struct

from findings import Findings, expecter, root_peer
from layout import ALL_FATTR, ALL_FSATTR, BIT, FSATTR, FSBIT, ZERO64, attributes, buffers
from peer import Peer, Request
from rig import scenario


FILE_BITS = sum(BIT[name] for name in ("OBJECT_TYPE", "CHANGE", "OBJECT_SIZE", "FILE_ID", "FILEHANDLE"))


@scenario(timeout=60, where="server", loopback=True)
def peer_attributes(rig):
    """GETATTR, SETATTR, VERIFY, NVERIFY, GET_FSATTR and ACCESS with every attribute.
    Shows DAFS-6.1.5-01, DAFS-6.1.5-05, DAFS-6.1.6-01, DAFS-6.1.6-13, DAFS-6.5.15-01, DAFS-6.5.23-01, DAFS-6.5.23-03,
    DAFS-6.5.35-02, DAFS-6.5.35-05, DAFS-6.5.35-07, DAFS-6.5.35-09, DAFS-6.5.37-01, DAFS-6.5.37-03, DAFS-6.5.2-02,
    DAFS-4.1.4-26."""
    rig.expect(".*")
    server, findings = rig.serve(), Findings()
    for order in "<>":
        (rig.export / "file").write_bytes(b"12345")
        (rig.export / "dir").mkdir(exist_ok=True)
        peer, data = root_peer(server.port, order)
        expect = expecter(peer, findings, order)
        file = peer.walk("data", "file")
        included, valid, values = peer.must(peer.getattr(file, 2**64 - 1)).attributes()
        findings.equal(included, ALL_FATTR, "included of every bit")
        findings.equal(valid & (BIT["TIME_ACCESS_SET"] | BIT["TIME_MODIFY_SET"]), 0, "write-only attributes")
        supported = peer.must(peer.fsattr(file)).attributes(0, FSATTR)[2]["SUPPORTED_FATTR"]
        findings.equal(valid & ~supported, 0, "attributes had that are not supported")
        findings.equal(FILE_BITS & ~valid, 0, "mandatory attributes")
        findings.equal(values["FILEHANDLE"], file, "FILEHANDLE")
        response = expect(peer.getattr(file, 0), "OK")
        findings.equal(response.get("I", 0), 0, "offset of no attributes")
        response = expect(peer.getattr(file, 1 << 40), "OK")
        findings.equal(response.get("I", 0), 0, "offset of undefined attributes only")
        for name, bit in BIT.items():
            inc, val, one = peer.must(peer.getattr(file, bit | 1 << 63)).attributes()
            findings.equal((inc, val), (bit, valid & bit), name)
            findings.check(not one or one[name] == values[name] or name in ("TIME_ACCESS",), f"{name} alone: {one}")
        # File system attributes.
        included, valid, values_fs = peer.must(peer.fsattr(file, 2**64 - 1)).attributes(0, FSATTR)
        findings.equal(included, ALL_FSATTR, "included of every file system attribute")
        findings.equal(values_fs["SUPPORTED_FSATTR"], valid, "SUPPORTED_FSATTR")
        findings.equal(values_fs["FSHANDLE"], file[:16], "FSHANDLE")
        usage = os.statvfs(rig.export)
        findings.equal((values_fs["SPACE_TOTAL"], values_fs["FILES_TOTAL"]),
                       (usage.f_blocks * usage.f_frsize, usage.f_files), "size of the file system")
        for name in ("LINK_SUPPORT", "SYMLINK_SUPPORT", "LEASE_TIME", "RD_ATTR_ERROR", "SUPPORTED_FATTR",
                     "SUPPORTED_FSATTR",
                     "FSHANDLE", "MAX_APPEND"):
            findings.check(name in values_fs, f"mandatory {name} is missing")
        findings.check(values_fs["MAX_APPEND"] >= 65536, "MAX_APPEND")
        expire = values_fs.get("FH_EXPIRE_TYPE", 0)
        findings.check(expire & ~11 == 0 and expire & 10 != 10, f"FH_EXPIRE_TYPE {expire}")
        for name, bit in FSBIT.items():
            inc, val, _ = peer.must(peer.fsattr(file, bit)).attributes(0, FSATTR)
            findings.equal((inc, val), (bit, valid & bit), name)
        # The pseudo root has its own.
        root = peer.root()
        included, _, pseudo = peer.must(peer.getattr(root, 2**64 - 1)).attributes()
        findings.equal((included, pseudo["OBJECT_TYPE"], pseudo["FILEHANDLE"]), (ALL_FATTR, 2, root), "the pseudo root")
        peer.must(peer.fsattr(root))

        # VERIFY and NVERIFY with each attribute that can be had.
        def raw(structure):
            return attributes(order, structure)

        fresh = peer.must(peer.getattr(file)).attributes()[2]
        for name, value in fresh.items():
            item = raw({name: value})
            expect(peer.verify(file, raw=item), "OK", name)
            expect(peer.verify(file, raw=item, name="NVERIFY"), "SAME", name)
        everything = {name: value for name, value in fresh.items() if name != "TIME_ACCESS"}
        expect(peer.verify(file, everything), "OK", "all at once")
        expect(peer.verify(file, everything, name="NVERIFY"), "SAME", "all at once")
        other = {"NAMED_ATTR": 0, "OBJECT_TYPE": 2, "MODE": 0o7000, "NUM_LINKS": 9, "CHANGE": 1, "OBJECT_SIZE": 6,
                 "FILE_ID": 1,
                 "SPACE_USED": 3, "TIME_ACCESS": (1, 1), "TIME_CREATE": (1, 1), "TIME_DELTA": (1, 1),
                 "TIME_METADATA": (1, 1),
                 "TIME_MODIFY": (1, 1), "RAW_DEV": (1, 1), "FILEHANDLE": b"x" * 64, "ACL": [(0, 0, 1, "OWNER@")],
                 "OWNER": "77", "OWNER_GROUP": "77"}
        for name in fresh:
            item = raw({name: other[name]})
            expect(peer.verify(file, raw=item), "NOT_SAME", f"another {name}")
            expect(peer.verify(file, raw=item, name="NVERIFY"), "OK", f"another {name}")
        mixed = {**everything, "OBJECT_SIZE": 6}
        expect(peer.verify(file, mixed), "NOT_SAME", "one of all differs")
        expect(peer.verify(file, mixed, name="NVERIFY"), "OK", "one of all differs")
        expect(peer.verify(file), "OK", "nothing")
        expect(peer.verify(file, name="NVERIFY"), "SAME", "nothing")
        expect(peer.verify(file, {}), "OK", "an explicit empty structure")
        ignored = attributes(order, {"OBJECT_SIZE": 99}, valid=0)
        expect(peer.verify(file, raw=ignored), "OK", "included and not valid")
        expect(peer.verify(file, raw=ignored, name="NVERIFY"), "SAME", "included and not valid")
        for name, value in (("TIME_ACCESS_SET", None), ("TIME_MODIFY_SET", (1, 1)), ("ARCHIVE", 1), ("HIDDEN", 1),
                            ("SYSTEM", 0),
                            ("TIME_BACKUP", (1, 1)), ("MIME_TYPE", "text/plain")):
            if name in fresh:
                continue
            expect(peer.verify(file, {name: value}), "NOTSUPP", name)
            expect(peer.verify(file, {name: value}, name="NVERIFY"), "NOTSUPP", name)
            response = expect(peer.setattr(file, {name: value}), "OK" if name.endswith("_SET") else "INVAL", name)
            findings.equal(response.get("Q", 0), BIT[name] if name.endswith("_SET") else 0, f"bitmap of {name}")
        # Malformed structures.
        for item, what in ((attributes(order, {"OBJECT_SIZE": 5}, valid=BIT["OBJECT_SIZE"] | 1),
                            "valid outside included"),
                           (attributes(order, {"OBJECT_SIZE": 5}, included=1 << 30 | BIT["OBJECT_SIZE"]),
                            "an undefined number"),
                           (attributes(order, {"OBJECT_SIZE": 5})[:16], "cut short"), (bytes(8), "8 bytes"),
                           (attributes(order, {}, included=ALL_FATTR, valid=0), "no space for what is included")):
            for request in (peer.verify(file, raw=item), peer.setattr(file, raw=item),
                            peer.verify(file, raw=item, name="NVERIFY"),
                            peer.create(data, "bad", raw=item), peer.open(data, ["bad"], 0, raw=item, owner=b"")):
                expect(request, "INVAL", what)
        # SETATTR: what may be set, and what may not.
        for name in ("NAMED_ATTR", "OBJECT_TYPE", "NUM_LINKS", "CHANGE", "FILE_ID", "SPACE_USED", "TIME_ACCESS",
                     "TIME_DELTA",
                     "TIME_MODIFY", "RAW_DEV", "FILEHANDLE"):
            response = expect(peer.setattr(file, {name: values[name]}), "INVAL", f"read-only {name}")
            findings.equal(response.get("Q", 0), 0, f"bitmap of {name}")
            expect(peer.open(data, ["bad"], 0, attrs={name: values[name]}), "INVAL", f"read-only {name}")
        settable = {"MODE": 0o4751, "OBJECT_SIZE": 3, "OWNER": "12", "OWNER_GROUP": "13",
                    "TIME_ACCESS_SET": (-5, 999_999_999),
                    "TIME_MODIFY_SET": (1 << 33, 1), "ACL": values["ACL"]}
        for name, value in settable.items():
            response = expect(peer.setattr(file, {name: value}), "OK", name)
            findings.equal(response.get("Q", 0), BIT[name], f"bitmap of {name}")
        response = expect(peer.setattr(file, settable), "OK", "all at once")
        findings.equal(response.get("Q", 0), sum(BIT[name] for name in settable), "bitmap of all")
        found = peer.must(peer.getattr(file)).attributes()[2]
        findings.equal((found["OBJECT_SIZE"], found["OWNER"], found["OWNER_GROUP"], found["TIME_ACCESS"],
                        found["TIME_MODIFY"]),
                       (3, b"12", b"13", (-5, 999_999_999) if found["TIME_ACCESS"][0] < 0 else found["TIME_ACCESS"],
                        (1 << 33, 1)),
                       "what was set")
        response = expect(peer.setattr(file), "OK", "nothing")
        findings.equal(response.get("Q", 0), 0, "bitmap of nothing")
        expect(peer.setattr(file, raw=attributes(order, {"CHANGE": 1}, valid=0)), "OK",
               "a read-only one that is not valid")
        for bad in ({"MODE": 0o10000}, {"MODE": 2**31}, {"TIME_MODIFY_SET": (0, 10**9)},
                    {"TIME_ACCESS_SET": (0, 2**32 - 1)},
                    {"OWNER": ""}, {"OWNER": "nobody knows him"}, {"OWNER_GROUP": "-1"}, {"OWNER": "4294967296"},
                    {"OWNER": "x" * 1025},
                    {"ACL": [(0, 0, 1, "")]}, {"ACL": [(9, 0, 1, "OWNER@")]}, {"ACL": [(0, 0, 1, "OWNER@")] * 1025}):
            response = peer.call(peer.setattr(file, bad))
            findings.equal(response.status, "INVAL", f"{order} SETATTR {str(bad)[:60]}")
        how = bytearray(attributes(order, {"TIME_MODIFY_SET": (5, 5)}))
        how[32:36] = struct.pack(order + "I", 3)
        expect(peer.setattr(file, raw=bytes(how)), "INVAL", "an unknown timeset_how")
        for size, status in ((2**63 - 1, ("OK", "FBIG", "NOSPC")), (2**63, ("FBIG", "INVAL")),
                             (2**64 - 1, ("FBIG", "INVAL"))):
            found = peer.call(peer.setattr(file, {"OBJECT_SIZE": size})).status
            findings.check(found in status, f"{order} size {size}: {found}")
        expect(peer.setattr(file, {"OBJECT_SIZE": 0}), "OK")
        expect(peer.setattr(peer.walk("data", "dir"), {"OBJECT_SIZE": 0}), "INVAL", "the size of a directory")
        expect(peer.setattr(file, {"MODE": 0o600}, state=b"\xff" * 8), "BAD_STATEID")
        # The response has its result section for errors of the file, but not for errors found earlier.
        findings.equal(len(peer.call(peer.setattr(file, {"CHANGE": 1})).message), 48, "length of a refused SETATTR")
        findings.equal(len(peer.call(peer.setattr(ZERO64, {"MODE": 1})).message), 48, "length with BADHANDLE")
        findings.equal(len(peer.call(peer.setattr(file, {"MODE": 1}), cred=b"nono").message), 40,
                       "length with NO_CREDS")
        # The bitmap reports an attribute that was set before another failed.
        half = {"OBJECT_SIZE": 1, "ACL": [(0, 0, 0x1F01FF, "OWNER@"), (0, 0x40, 1, "GROUP@"), (0, 0, 1, "EVERYONE@")]}
        response = peer.call(peer.setattr(file, half))
        findings.equal((response.status == "OK", response.get("Q", 0)), (False, BIT["OBJECT_SIZE"]),
                       "a failure in the middle")
        # By another user: PERM, and no bit.
        os.chown(rig.export / "file", 0, 0)
        user = Peer(server.port, order, name="user")
        user.act_as(1000, 1000)
        response = user.call(user.setattr(file, {"MODE": 0o777}))
        findings.equal((response.status, response.get("Q", 0)), ("PERM", 0), "SETATTR by another user")
        # ACCESS.
        findings.equal(peer.must(peer.access(file)).get("II", 0)[1] & 7,
                       peer.must(peer.access(file, 7)).get("II", 0)[1], "ACCESS")
        for bits in (0x40, 2**32 - 1, 0x80000000):
            expect(peer.access(file, bits), "INVAL", f"{bits:#x}")
        supported, allowed = peer.must(peer.access(file, 0)).get("II", 0)
        findings.equal((supported, allowed), (0, 0), "ACCESS of nothing")
        for bit in (1, 2, 4, 8, 0x10, 0x20):
            supported, allowed = peer.must(peer.access(file, bit)).get("II", 0)
            findings.check(supported & ~bit == 0 and allowed & ~supported == 0,
                           f"ACCESS {bit:#x}: {supported:#x} {allowed:#x}")
        os.chmod(rig.export / "file", 0o600)
        findings.equal(user.must(user.access(file)).get("I", 4), 0, "ACCESS by another user")
        # Direct: exact sizes, empty structures, too small buffers.
        for bits in (0, FILE_BITS, ALL_FATTR & ~BIT["TIME_ACCESS"]):
            stag = peer.register(b"\xee" * 4096)
            peer.must(peer.one_buffer("GETATTR_DIRECT", file, peer.segment(stag), bits))
            inline = peer.must(peer.getattr(file, bits))
            extent = len(peer.memory(stag).rstrip(b"\xee"))
            content = bytes(16) if not bits else inline.message[48:]
            findings.equal(bytes(peer.memory(stag)[:len(content)])[:extent], content[:extent],
                           f"GETATTR_DIRECT {bits:#x}")
            small = peer.register(b"\xee" * (extent - 1))
            expect(peer.one_buffer("GETATTR_DIRECT", file, peer.segment(small), bits), "TOOSMALL",
                   f"{extent - 1} bytes")
            findings.equal(bytes(peer.memory(small)), b"\xee" * (extent - 1), "memory after TOOSMALL")
        for structure, status in ((attributes(order, {"MODE": 0o640}), "OK"),
                                  (attributes(order, {"CHANGE": 1}), "INVAL"),
                                  (attributes(order, {"OWNER": "5", "ACL": settable["ACL"]}), "OK"), (bytes(16), "OK"),
                                  (bytes(15), "INVAL"), (attributes(order, {"OWNER": "5"})[:-1], "INVAL"),
                                  (attributes(order, {"MODE": 1}, included=2**64 - 1), "INVAL")):
            stag = peer.register(structure)
            response = expect(peer.one_buffer("SETATTR_DIRECT", file, peer.segment(stag)), status,
                              f"{len(structure)} bytes")
            findings.equal(len(response.message), 48, "length of SETATTR_DIRECT")
        peer.must(peer.setattr(file, {"OWNER": "0", "OWNER_GROUP": "0"}))
        peer.close()
    findings.finish()


STAT_BITS = sum(BIT[name] for name in (
    "OBJECT_TYPE", "MODE", "NUM_LINKS", "CHANGE", "OBJECT_SIZE", "FILE_ID", "SPACE_USED", "TIME_ACCESS", "TIME_CREATE",
    "TIME_METADATA", "TIME_MODIFY", "RAW_DEV", "OWNER", "OWNER_GROUP"))
AFTER, OTHER_AFTER = 0x100, 0x200  # docs/wire.md 9.8


@scenario(timeout=60, where="server", loopback=True)
def peer_attributes_after(rig):
    """Responses carry the attributes that a GETATTR after the request reports, with checksums, too."""
    server, findings = rig.serve(), Findings()
    for order in "<>":
        (rig.export / "file").write_bytes(b"12345")
        (rig.export / "dir").mkdir(exist_ok=True)
        peer, data = root_peer(server.port, order, checksums=True)
        expect = expecter(peer, findings, order)
        expect(peer.lookup(data, ["file"], flags=AFTER), "CHAIN_FORM", "without the extension")
        granted = peer.must(Request("EXTENSIONS", ZERO64 + struct.pack(order + "Q", 0x80))).get("Q", 0)
        findings.equal(granted, 0x80, "extensions granted")
        peer.wants_after = True
        file, directory = peer.walk("data", "file"), peer.walk("data", "dir")
        both = AFTER | OTHER_AFTER
        for request, current, other in (
                (peer.lookup(data, ["file"], flags=both), file, None),
                (peer.lookup(data, ["file"]), None, None),
                (peer.setattr(file, {"MODE": 0o600}, flags=both), file, None),
                (peer.link(file, data, "linked", flags=both), data, file),
                (peer.rename(data, "linked", directory, "moved", flags=both), directory, data),
                (peer.rename(directory, "moved", directory, "again", flags=OTHER_AFTER), None, directory),
                (peer.remove(directory, "again", flags=both), directory, None)):
            response = expect(request, "OK")
            wanted = {name: (peer.must(peer.getattr(handle, STAT_BITS)).attributes()[2], 0)
                      for name, handle in (("current", current), ("other", other)) if handle is not None}
            findings.equal(response.attributes_after(), wanted, f"{order}: attributes after {request.name}")
        expect(peer.lookup(data, ["missing"], flags=AFTER), "NOENT", "a missing name")
        expect(peer.getattr(file, flags=AFTER), "CHAIN_FORM", "a bulk fetch")
        peer.close()
    findings.finish()
