"""Captures of DAFS: by dumpcap from loopback, or made from messages without a network. And what tshark reads in them.

tshark runs with the dissector of this build, wireshark/dafs.lua beside the folder of the programs.
"""

import collections
import contextlib
import os
import shutil
import signal
import struct
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

import iwarp
import processes
from rig import Failure, check

CLIENT, SERVER = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
SERVER_PORT, ROCE_PORT = 20149, 4791
RAW_IP = 101  # the link type


def need_tshark(rig):
    """Skips the scenario if tshark is missing. CI installs it, so there it fails."""
    for program in ("tshark", "dumpcap"):
        if shutil.which(program) is None:
            if os.environ.get("CI"):
                raise Failure(f"{program} is not installed (scripts/install-packages test)")
            pytest.skip(f"{program} is not installed")
    check(dissector(rig).exists(), f"not built: {dissector(rig)}")


def dissector(rig):
    return rig.bin.parent / "wireshark" / "dafs.lua"


def tshark(rig, path, *arguments):
    """Runs tshark on the capture; returns its output.

    Heuristics come first, because clients have ports below 1024, and Wireshark knows other protocols by many of them.
    """
    command = ["tshark", "-n", "-o", "tcp.try_heuristic_first:TRUE", "-X", f"lua_script:{dissector(rig)}", "-r",
               str(path), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100 * rig.slowness, cwd="/",
                          env=os.environ | {"HOME": str(rig.local)}, check=False)
    output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    check(done.returncode == 0, f"tshark: {errors.strip()[-300:]}")
    for text in (output, errors):
        at = text.find("Lua Error")
        check(at < 0, f"tshark: {text[max(at, 0):][:300]}")
    return output


def fields(rig, path, names, condition="dafs"):
    """One list for each frame that fulfils `condition`: for each name the list of its values."""
    options = [word for name in names for word in ("-e", name)]
    output = tshark(rig, path, "-Y", condition, "-T", "fields", "-E", "aggregator=;", *options)
    return [[value.split(";") if value else [] for value in line.split("\t")] for line in output.splitlines()]


def requests(rig, path, condition="dafs"):
    """{procedure: requests} in the frames that fulfil `condition`."""
    return collections.Counter(name for names, in fields(rig, path, ["dafs.proc"], condition) for name in names)


def trees(rig, path, condition="dafs"):
    """For each frame that fulfils `condition`: {field without "dafs.": [values]}, and its number as `frame`."""
    for packet in ElementTree.fromstring(tshark(rig, path, "-Y", condition, "-T", "pdml")).iter("packet"):
        found = collections.defaultdict(list)
        for field in packet.iter("field"):
            name = field.get("name", "")
            if name == "frame.number":
                found["frame"] = int(field.get("show"))
            elif name.startswith("dafs."):
                found[name[5:]].append(field.get("show"))
        yield found


@contextlib.contextmanager
def capturing(path, port):
    """Captures TCP `port` on loopback to `path` until the end of the block."""
    with subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-B", "64", "-f", f"tcp port {port}", "-w", str(path)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            started = processes.wait_until(lambda: path.exists() and path.stat().st_size > 0 or
                                           process.poll() is not None, 20)
            check(started and process.poll() is None, "dumpcap does not start")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=30)[1].decode(errors="replace")
    check("received/dropped" not in errors or "/0 (" in errors, f"dumpcap: {errors.strip()[-200:]}")


class Capture:
    """A pcap file in memory. Frames are counted from 1."""

    def __init__(self):
        self.frames = []

    def add(self, to_server, protocol, payload):
        """Adds one IP packet; returns its number."""
        source, target = (CLIENT, SERVER) if to_server else (SERVER, CLIENT)
        self.frames.append(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), len(self.frames) % 65536, 0x4000, 64,
                                       protocol, 0) + source + target + payload)
        return len(self.frames)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, RAW_IP))
            for number, frame in enumerate(self.frames):
                file.write(struct.pack("<IIII", 1700000000, number, len(frame), len(frame)) + frame)
        return path


class Stream:
    """One TCP connection of a capture, with the handshake of MPA done. Wireshark takes its port for one of TLS."""

    def __init__(self, capture, port=802, crc=False):
        self.capture, self.port, self.crc = capture, port, crc
        self.sent = {True: 1000, False: 2000}  # sequence numbers, by direction
        self.messages = {True: 0, False: 0}
        flags = iwarp.CRC if crc else 0
        self.segment(True, iwarp.mpa_request(iwarp.private_data(), flags))
        self.segment(False, iwarp.MPA_REPLY + struct.pack("!BBH", flags, 1, 0))

    def segment(self, to_server, data):
        """One TCP segment; returns the number of its frame."""
        ports = (self.port, SERVER_PORT) if to_server else (SERVER_PORT, self.port)
        header = struct.pack("!HHIIBBHHH", *ports, self.sent[to_server], self.sent[not to_server], 5 << 4, 0x18, 65535,
                             0, 0)
        self.sent[to_server] += len(data)
        return self.capture.add(to_server, 6, header + data)

    def fpdus(self, message, to_server=True, part=60000):
        """The FPDUs of a message, with at most `part` bytes of it in each."""
        self.messages[to_server] += 1
        return [iwarp.fpdu(iwarp.untagged(message[at:at + part], msn=self.messages[to_server], offset=at,
                                          last=at + part >= len(message)), self.crc)
                for at in range(0, max(len(message), 1), part)]

    def send(self, message, to_server=True):
        """A message in a TCP segment of its own; returns the number of its frame."""
        return self.segment(to_server, b"".join(self.fpdus(message, to_server)))


def roce(capture, message, to_server=True, queue=7, psn=100, part=1024):
    """A message as Sends of RoCE version 2; returns the number of its last frame."""
    pieces = [message[at:at + part] for at in range(0, len(message), part)]
    for index, piece in enumerate(pieces):
        opcode = 4 if len(pieces) == 1 else 0 if index == 0 else 2 if index == len(pieces) - 1 else 1
        packet = struct.pack("!BBHII", opcode, 0, 0xFFFF, queue, psn + index) + piece + bytes(4)
        number = capture.add(to_server, 17, struct.pack("!HHHH", 49152, ROCE_PORT, 8 + len(packet), 0) + packet)
    return number


def request(procedure, body=b"", order="<", stream=0, sequence=1, chain=0):
    size = 40 + len(body) + -len(body) % 8
    return struct.pack(order + "IIHHHH8s4s4sII", 0x44414653, 1, 0, chain, stream, sequence, b"analyzer", bytes(4),
                       bytes(4), procedure, size) + body + bytes(-len(body) % 8)


def response(status=0, body=b"", order="<", stream=0, sequence=1):
    size = 40 + len(body) + -len(body) % 8
    return struct.pack(order + "IIHHHH8s4sIII", 0x44414652, 1, 1, 0, stream, sequence, b"analyzer", bytes(4), status,
                       size, 0) + body + bytes(-len(body) % 8)

