"""The dissector of Wireshark, wireshark/dafs.lua, in tshark: on captures of mounts and on made ones."""

import json
import os
import random
import re
import struct
import time

import captures
import iwarp
import processes
from captures import Capture, Stream, fields, need_tshark, request, requests, response, trees, tshark
from rig import SOURCE, check, equal, note, scenario

from scenarios.caching.speed import CALLS, prepare, procedures, rows

VECTORS = SOURCE / "tests" / "wire" / "vectors"
OPEN, LOOKUP, READDIR_INLINE, NULL = 134, 130, 139, 132


def vectors(name):
    """The messages of one file of vectors."""
    return [case for case in json.loads((VECTORS / name).read_text(encoding="utf-8"))["cases"]
            if case.get("kind") in ("request", "response")]


def valid_vectors():
    for path in sorted(VECTORS.glob("*.json")):
        if path.name not in ("malformed.json", "iwarp.json"):
            yield from vectors(path.name)


def add_vector(stream, case, message=None):
    """Adds the message of a vector, after a request if it is a response. Returns the number of its frame."""
    message = bytes.fromhex(case["hex"]) if message is None else message
    if case["kind"] == "response" and len(message) >= 24:
        order = "<" if case["byte_order"] == "little" else ">"
        arguments = struct.pack(order + "I", case.get("claim_type", 0)) if case["procedure"] == OPEN else b""
        ask = bytearray(request(case["procedure"], arguments, order))
        ask[12:24] = message[12:24]  # stream, sequence number, analyzer
        stream.send(bytes(ask))
    return stream.send(message, case["kind"] == "request")


def difference(after, before):
    return {name: calls - before.get(name, 0) for name, calls in after.items() if calls != before.get(name, 0)}


def settled(rig):
    """The counts of dafsctl and the number of the first file `marker-N` whose lookup is all that came after them."""
    for number in range(50):
        time.sleep(0.05)  # requests that may be delayed have left
        before = procedures(rig)
        os.path.exists(rig.mnt / f"marker-{number}")
        time.sleep(0.05)
        if difference(procedures(rig), before) == {"LOOKUP": 1}:
            return before, f"marker-{number}"
    raise AssertionError("the mount is never idle")


@scenario(timeout=120, where="server", loopback=True)
def wireshark_counts(rig):
    """tshark finds in a capture of the round-trip calls the requests that dafsctl counts."""
    need_tshark(rig)
    prepare(rig.export)
    server = rig.serve()
    path = rig.local / "mount.pcapng"
    with captures.capturing(path, server.port):
        rig.mount(server, "acregmin=60")
        for ready, once in rows(rig.mnt, []).values():
            for number in range(CALLS if ready else 0):
                ready(number)
            for number in range(CALLS):
                once(number)
        counted, marker = settled(rig)
        rig.umount()
        check(processes.wait_until(lambda: ended(rig, path), 30 * rig.slowness, 0.5), "the capture has no DISCONNECT")
    last = int(fields(rig, path, ["frame.number"], f'dafs.name == "{marker}"')[0][0][0])
    found = requests(rig, path, f"dafs && frame.number < {last}")
    note(f"{sum(found.values())} requests of {len(found)} procedures")
    found.pop("CONNECT_BIND", None)  # dafsctl does not count it
    equal(dict(found), counted, "the requests that tshark shows")
    equal(fields(rig, path, ["frame.number"], "dafs.malformed"), [], "malformed messages")
    equal(fields(rig, path, ["frame.number"], "dafs.unknown"), [], "messages that are not understood")
    answered = sum(len(names) for names, in fields(rig, path, ["dafs.response_of"]))
    equal(answered, sum(requests(rig, path).values()), "responses")


def ended(rig, path):
    """Whether the capture shows the end of each session. It lags behind."""
    found = requests(rig, path)
    return 0 < found["CLIENT_CONNECT_AUTH"] == found["DISCONNECT"] == sum(
        names.count("DISCONNECT") for names, in fields(rig, path, ["dafs.response_of"]))


@scenario(timeout=120, where="server", loopback=True)
def wireshark_fields(rig):
    """Names, offsets and statuses of known calls, in both byte orders, with MPA's CRC and with checksums."""
    need_tshark(rig)
    server = rig.serve()
    for options in ("", "byteorder=big", "byteorder=little,crc,checksum"):
        (rig.export / "wanted").write_bytes(bytes(65536))
        path = rig.local / "fields.pcapng"
        with captures.capturing(path, server.port):
            rig.mount(server, f"noac,lookupcache=none,{options}".rstrip(","))
            check(not os.path.exists(rig.mnt / "missing-ä"), "a missing name")
            file = os.open(rig.mnt / "wanted", os.O_RDWR)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            equal(len(os.pread(file, 4096, 8192)), 4096, "bytes read")
            os.pwrite(file, b"x" * 100, 20000)
            os.fsync(file)
            os.close(file)
            os.rename(rig.mnt / "wanted", rig.mnt / "renamed")
            rig.umount()
            check(processes.wait_until(lambda: ended(rig, path), 30 * rig.slowness, 0.5), "no DISCONNECT")
        check_fields(rig, path)
        (rig.export / "renamed").unlink()
        path.unlink()


def check_fields(rig, path):
    equal(fields(rig, path, ["frame.number"], "dafs.malformed"), [], "malformed messages")
    asked = {row[0][0] for row in fields(rig, path, ["frame.number"], 'dafs.path == "missing-ä"')}
    refused = {number for numbers, in fields(rig, path, ["dafs.request_in"],
                                             'dafs.status == "DAFSERR_NOENT" && dafs.response_of == "LOOKUP"')
               for number in numbers}
    check(asked & refused, f"lookups of the missing name in {asked}, NOENT to those in {refused}")
    for procedure, offset, length in (("READ", 8192, 4096), ("WRITE", 20000, 100)):
        row = fields(rig, path, ["dafs.byte_count"],
                     f'dafs.proc matches "^{procedure}_" && dafs.offset == {offset}')
        check(row and str(length) in row[0][0], f"{procedure} at {offset}: {row}")
    renamed = fields(rig, path, ["dafs.oldname", "dafs.newname"], "dafs.oldname")
    equal(renamed, [[["wanted"], ["renamed"]]], "names of the rename")
    chains = fields(rig, path, ["dafs.chain.member"], "dafs.chain_flags.back == 1")
    check(any("2" in members for members, in chains), f"members of chains: {chains[:5]}")


# How PDML shows the values of a vector.
def shown(value):
    if isinstance(value, bool):
        return {str(int(value)), str(value), str(value).lower()}
    if isinstance(value, int):
        return {str(value), hex(value), f"0x{value:08x}", f"0x{value:016x}", f"0{value:o}"}
    return {value, ":".join(re.findall("..", value))}


@scenario(timeout=200, where="server")
def wireshark_vectors(rig):
    """Each message of tests/wire/vectors, which another implementation made: its fields have the values that it has."""
    need_tshark(rig)
    made, of_frame = Capture(), {}
    stream = Stream(made)
    for case in valid_vectors():
        of_frame[add_vector(stream, case)] = case
    path = made.write(rig.local / "vectors.pcap")
    compared = 0
    names = set()
    for tree in trees(rig, path):
        case = of_frame.pop(tree["frame"], None)
        if case is None:
            continue
        what = f"{case['name']} ({case['procedure_name']} {case['kind']})"
        check("malformed" not in tree, f"{what} is shown as malformed")
        if case["kind"] == "request":
            equal(tree["proc"], [case["procedure_name"]], what)
        else:
            equal(tree["response_of"], [case["procedure_name"]], what)
            equal(tree["status"], [str(case["header"]["status"])], what)
        names.add((case["procedure"], case["kind"]))
        for name, value in (case["body"] or {}).items():
            if not isinstance(value, (int, str)) or value == "" or name == "pad":
                continue
            if case["kind"] == "response" and case["header"]["status"] != 0 and not str(value).strip("0"):
                continue  # a part that this status leaves empty
            found = tree.get(name) or tree.get(f"{case['procedure_name'].lower()}.{name}") or \
                tree.get(f"{case['procedure_name'].lower()}.{name}_bytes")
            check(found and shown(value) & set(found), f"{what}: {name} is {value}, shown as {found}: {dict(tree)}")
            compared += 1
    equal([case["name"] for case in of_frame.values()], [], "messages that are not shown")
    note(f"{len(names)} arguments and results of procedures, {compared} fields")


@scenario(timeout=200, where="server")
def wireshark_damaged(rig):
    """Damaged messages are marked as malformed, and none ends in an error of the dissector."""
    need_tshark(rig)
    made, expected = Capture(), {}
    stream = Stream(made)
    # The dissector checks, by the rules of WIRE 9.2, sizes, offsets and counts, but not names, enums and limits.
    structural = re.compile(r"(fixed_section|offset_|length_|_beyond|_into_|_misaligned|_wrap|_huge|_absent|_cut|"
                            r"short_header|_undefined|_outside|fsattr_31|ok_without)")
    harmless = re.compile(r"cut_utf8|buffers_wrap_zero|limit|length_not_multiple")
    for case in vectors("malformed.json"):
        message = bytes.fromhex(case["hex"])
        if message:
            number = add_vector(stream, case, message)
            if structural.search(case["name"]) and not harmless.search(case["name"]):
                expected[number] = case["name"]
    generator = random.Random(1)
    valid = list(valid_vectors())
    for case in generator.sample(valid, 300):
        message = bytearray(bytes.fromhex(case["hex"]))
        for _ in range(generator.choice((1, 1, 2, 8))):
            message[generator.randrange(40 if len(message) > 40 else 0, len(message))] = generator.choice(
                (0, 1, 8, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        add_vector(stream, case, bytes(message))
    for case in generator.sample(valid, 20):
        message = bytes.fromhex(case["hex"])
        for size in range(1, len(message), 3):
            expected[add_vector(stream, case, message[:size])] = f"{case['name']} of {size} bytes"
    path = made.write(rig.local / "damaged.pcap")
    marked = {tree["frame"] for tree in trees(rig, path, "dafs.malformed")}
    missed = [name for frame, name in expected.items() if frame not in marked]
    equal(missed, [], "damaged messages that are not marked")
    note(f"{len(made.frames)} frames, {len(marked)} marked")
    tshark(rig, path, "-V", "-2")  # as Wireshark does: each frame twice


@scenario(timeout=100, where="server")
def wireshark_overlapping(rig):
    """A listing whose 3,000 entries share one ACL of 1,000 entries is shown in part, in bounded time."""
    need_tshark(rig)
    entries, aces = 3000, 1000
    acl = struct.pack("<QQII", 1 << 21, 1 << 21, 24, 0) + struct.pack("<I", aces) + b"".join(
        struct.pack("<IIII", 0, 0, 0, 4 + aces * 16 + 4) for _ in range(aces)) + bytes(4) + struct.pack("<I", 1) + b"u"
    at = 8 + entries * 16
    name = at + len(acl) + -len(acl) % 8
    listing = struct.pack("<II", entries, 0) + b"".join(
        struct.pack("<QII", index, at, name) for index in range(entries))
    body = bytes(8) + struct.pack("<II", 1, 16) + listing + acl + bytes(-len(acl) % 8) + struct.pack("<I", 1) + b"n"
    made = Capture()
    stream = Stream(made)
    stream.send(request(READDIR_INLINE, bytes(96)))
    for fpdu in stream.fpdus(response(0, body), False):
        stream.segment(False, fpdu)
    path = made.write(rig.local / "overlapping.pcap")
    start = time.monotonic()
    equal(fields(rig, path, ["dafs.response_of"], "dafs.unknown && !dafs.malformed"), [[["READDIR_INLINE"]]],
          "the listing")
    check(time.monotonic() - start < 20 * rig.slowness, f"shown after {time.monotonic() - start:.1f} s")


@scenario(timeout=100, where="server")
def wireshark_segments(rig):
    """Messages that share a TCP segment, also with data, are cut into FPDUs, segments or packets, or have no request."""
    need_tshark(rig)
    long = struct.pack("<I", 72) + bytes(4) + struct.pack("<II", 40, 0) + b"".join(
        struct.pack("<I", 40) + bytes([97 + index % 26] * 40) + bytes(4) for index in range(40))
    long = request(LOOKUP, bytes(64) + long, sequence=5)
    null = [request(NULL, sequence=number) for number in (1, 2, 3)]
    for crc in (False, True):
        made = Capture()
        stream = Stream(made, crc=crc)
        together = stream.segment(True, b"".join(part for message in null for part in stream.fpdus(message)))
        cut = stream.fpdus(long, part=500)
        check(len(cut) > 3, f"{len(cut)} FPDUs")
        for fpdu in cut[:-1]:
            stream.segment(True, fpdu[:100])
            stream.segment(True, fpdu[100:])
        whole = stream.segment(True, cut[-1])
        data = iwarp.fpdu(iwarp.tagged(null[0] + bytes(1000), iwarp.WRITE, 5, 0), crc)
        answers = stream.segment(False, data.join(
            part for number in (1, 2, 3, 5, 9) for part in stream.fpdus(response(2, sequence=number), False)))
        check_segments(rig, made.write(rig.local / "segments.pcap"), together, whole, answers)
    made = Capture()
    for message in null:
        captures.roce(made, message, psn=len(made.frames))
    whole = captures.roce(made, long, psn=(1 << 24) - 2)
    equal(fields(rig, made.write(rig.local / "roce.pcap"), ["frame.number", "dafs.proc"], "dafs.proc"),
          [[["1"], ["NULL"]], [["2"], ["NULL"]], [["3"], ["NULL"]], [[str(whole)], ["LOOKUP"]]], "messages over RoCE")


def check_segments(rig, path, together, whole, answers):
    found = fields(rig, path, ["frame.number", "dafs.proc", "dafs.path"], "dafs.proc")
    equal([row[:2] for row in found], [[[str(together)], ["NULL"] * 3], [[str(whole)], ["LOOKUP"]]], "requests")
    equal(len(found[1][2][0].split("/")), 40, "components of the path")
    equal(fields(rig, path, ["frame.number"], "dafs.malformed"), [], "malformed messages")
    for twice in ((), ("-2",)):
        output = tshark(rig, path, *twice, "-Y", f"frame.number == {answers}", "-T", "fields", "-e", "dafs.response_of",
                        "-e", "dafs.request_in", "-e", "dafs.unknown")
        equal(output.strip("\n").split("\t")[:2],
              ["NULL,NULL,NULL,LOOKUP", ",".join([str(together)] * 3 + [str(whole)])], "responses")
    line = tshark(rig, path, "-Y", f"frame.number == {together}")
    check("NULL, NULL, NULL" in line, f"the line of three messages: {line}")
