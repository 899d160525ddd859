"""MPA, DDP and RDMAP over a TCP socket, made from RFC 5040, 5041 and 5044 alone: shares no code with ours.

A `Connection` does what the test says, right or wrong, and checks what the other end sends. Each wait is limited to
PATIENCE.
"""

import socket
import struct

PATIENCE = 30  # seconds

MPA_REQUEST, MPA_REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
MARKERS, CRC, REJECT = 0x80, 0x40, 0x20

(WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, SEND_SOLICITED, SEND_SOLICITED_INVALIDATE,
 TERMINATE) = range(8)


def _table():
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        yield number


_CRC_TABLE = list(_table())


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _CRC_TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


class Closed(Exception):
    """The other end closed the connection; `terminate` holds (layer, type, code) if it gave a reason."""

    def __init__(self, terminate=None):
        super().__init__(f"closed, terminate {terminate}")
        self.terminate = terminate


def mpa_request(private=b"", flags=0, revision=1, length=None):
    return MPA_REQUEST + struct.pack("!BBH", flags, revision, len(private) if length is None else length) + private


def private_data(order="<", channel=1):
    """WIRE 11.1: the private data of a connection request."""
    return struct.pack(order + "I", 0x44414653) + b"inst" + b"sess" + struct.pack(order + "I", channel)


def fpdu(ulpdu, crc=False, bad_crc=False):
    body = struct.pack("!H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    if not crc:
        return body + bytes(4)
    return body + struct.pack("<I", crc32c(body) ^ bad_crc)


def untagged(payload, opcode=SEND, queue=0, msn=1, offset=0, last=True, ddp=1, rdmap=1, stag=0):
    return struct.pack("!BBIIII", last << 6 | ddp, rdmap << 6 | opcode, stag, queue, msn, offset) + payload


def tagged(payload, opcode, stag, offset, last=True, ddp=1, rdmap=1):
    return struct.pack("!BBIQ", 0x80 | last << 6 | ddp, rdmap << 6 | opcode, stag, offset) + payload


class Connection:
    """One TCP connection with the MPA handshake done. `regions` is memory that the server may use: {STag: bytearray},
    its tagged offsets begin at BASE."""

    BASE = 0x7F00_0000_1000

    def __init__(self, port, flags=0, private=None, handshake=True, tls=None):
        """`port` is one to connect to, or a socket that was accepted. `tls`: an SSLContext."""
        accepted = isinstance(port, socket.socket)
        self.socket = port if accepted else socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.crc = False
        self.regions = {}
        self.limits = {}  # {STag: bytes of a region that the server may use}, where it is not all
        self.sent = {0: 0, 1: 0, 2: 0}  # message sequence numbers, per queue
        self.received = {0: 0, 1: 0}
        self.parts = b""
        self.buffer = b""
        self.segment_bytes = 1400
        self.messages = []  # that came while a Read Response was awaited
        self.awaited = None  # the STag that the response must name
        self.invalidated = []  # STags of ours that the other end invalidated by a Send
        self.operations = []  # (opcode, STag, offset, length) of the server's accesses to our memory
        self.reply = self.private = None
        self.terminated = None  # the Terminate message that the server sent
        if accepted:
            self.answer_handshake(flags)
        elif handshake:
            self.reply = self.handshake(mpa_request(private_data() if private is None else private, flags))
            self.crc = bool(flags & CRC or self.reply[0] & CRC)

    def handshake(self, request):
        """Sends an MPA request; returns (flags, revision, private data) of the reply."""
        self.send_raw(request)
        frame = self.read(20)
        if frame[:16] != MPA_REPLY:
            raise ValueError(f"no MPA reply: {frame!r}")
        flags, revision, length = struct.unpack("!BBH", frame[16:])
        return flags, revision, self.read(length)

    def answer_handshake(self, flags):
        frame = self.read(20)
        if frame[:16] != MPA_REQUEST:
            raise ValueError(f"no MPA request: {frame!r}")
        asked, _, length = struct.unpack("!BBH", frame[16:])
        self.private = self.read(length)
        self.crc = bool((asked | flags) & CRC)
        self.send_raw(MPA_REPLY + struct.pack("!BBH", CRC if self.crc else 0, 1, 0))

    def close(self):
        self.socket.close()

    # Bytes

    def send_raw(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the connection is gone: read() finds the reason

    def read(self, size):
        while len(self.buffer) < size:
            try:
                more = self.socket.recv(1 << 18)
            except (ConnectionError, BrokenPipeError):
                more = b""
            if not more:
                raise Closed
            self.buffer += more
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    # FPDUs and messages

    def send_ulpdu(self, ulpdu):
        self.send_raw(fpdu(ulpdu, self.crc))

    def next_msn(self, queue=0):
        self.sent[queue] += 1
        return self.sent[queue]

    def message(self, payload, opcode=SEND, stag=0):
        """The FPDUs of one Send."""
        msn = self.next_msn()
        pieces = range(0, max(len(payload), 1), self.segment_bytes)
        return [fpdu(untagged(payload[at:at + self.segment_bytes], opcode, 0, msn, at,
                              at + self.segment_bytes >= len(payload), stag=stag), self.crc) for at in pieces]

    def send(self, payload, **how):
        self.send_raw(b"".join(self.message(payload, **how)))

    def receive_ulpdu(self):
        length, = struct.unpack("!H", head := self.read(2))
        rest = self.read(length + -(length + 2) % 4 + 4)
        body, check = head + rest[:-4], rest[-4:]
        expected = struct.pack("<I", crc32c(body)) if self.crc else bytes(4)
        if check != expected:
            raise ValueError(f"CRC field {check.hex()}, expected {expected.hex()}")
        if any(body[2 + length:]):
            raise ValueError("padding of an FPDU is not zero")
        return body[2:2 + length]

    def place(self, stag, at, data):
        region = self.regions[stag]
        at -= self.BASE
        if at < 0 or at + len(data) > self.limits.get(stag, len(region)):
            raise ValueError(f"the server wrote {len(data)} bytes at {at} of {len(region)}")
        region[at:at + len(data)] = data

    def answer_read(self, payload):
        sink, sink_at, size, source, at = struct.unpack("!IQIIQ", payload)
        self.operations.append((READ_REQUEST, source, at - self.BASE, size))
        region = self.regions[source]
        at -= self.BASE
        if at < 0 or at + size > self.limits.get(source, len(region)):
            raise ValueError(f"the server reads {size} bytes at {at} of {len(region)}")
        data = bytes(region[at:at + size])
        for step in range(0, max(size, 1), self.segment_bytes):
            last = step + self.segment_bytes >= size
            self.send_ulpdu(tagged(data[step:step + self.segment_bytes], READ_RESPONSE, sink, sink_at + step, last))

    def receive(self):
        """Returns the next message from the other end; serves its RDMA operations meanwhile. Raises Closed at the
        end."""
        while not self.messages:
            self.step()
        return self.messages.pop(0)

    def step(self):
        """One FPDU."""
        ulpdu = self.receive_ulpdu()
        control, operation = ulpdu[0], ulpdu[1]
        if control & 3 != 1 or operation >> 6 != 1:
            raise ValueError(f"versions of DDP or RDMAP: {control:#x} {operation:#x}")
        opcode, last = operation & 15, bool(control & 0x40)
        if control & 0x80:
            stag, at = struct.unpack("!IQ", ulpdu[2:14])
            if opcode == READ_RESPONSE and stag == self.awaited:
                self.awaited = None if last else stag
            elif opcode != WRITE:
                raise ValueError(f"tagged opcode {opcode} to STag {stag:#x}")
            self.operations.append((opcode, stag, at - self.BASE, len(ulpdu) - 14))
            self.place(stag, at, ulpdu[14:])
            return
        stag, queue, msn, offset = struct.unpack("!IIII", ulpdu[2:18])
        payload = ulpdu[18:]
        if opcode == TERMINATE:
            self.parts = b""
            self.terminated = payload
            raise Closed((payload[0] >> 4, payload[0] & 15, payload[1]))
        if queue not in self.received or msn != self.received[queue] + 1:
            raise ValueError(f"queue {queue}, sequence number {msn} after {self.received.get(queue)}")
        if opcode == READ_REQUEST:
            self.received[1] += 1
            self.answer_read(payload)
            return
        if opcode not in (SEND, SEND_SOLICITED, SEND_INVALIDATE, SEND_SOLICITED_INVALIDATE) or queue != 0:
            raise ValueError(f"opcode {opcode} on queue {queue}")
        if offset != len(self.parts):
            raise ValueError(f"message offset {offset} after {len(self.parts)} bytes")
        self.parts += payload
        if last and opcode in (SEND_INVALIDATE, SEND_SOLICITED_INVALIDATE):
            self.invalidated.append(stag)
        if last:
            self.received[0] += 1
            self.messages.append(self.parts)
            self.parts = b""

    def rdma_write(self, stag, at, data):
        """Writes to the other end's memory; `at` is its tagged offset."""
        for step in range(0, len(data), self.segment_bytes):
            piece = data[step:step + self.segment_bytes]
            self.send_ulpdu(tagged(piece, WRITE, stag, at + step, step + self.segment_bytes >= len(data)))

    def rdma_read(self, stag, at, size):
        """Reads the other end's memory."""
        sink = self.awaited = 0x5151
        self.regions[sink] = bytearray(size)
        request = struct.pack("!IQIIQ", sink, self.BASE, size, stag, at)
        self.send_ulpdu(untagged(request, READ_REQUEST, 1, self.next_msn(1)))
        while self.awaited is not None:
            self.step()
        return bytes(self.regions.pop(sink))

    def ended(self):
        """How the connection ends: (layer, type, code) of a Terminate, or None. Any message is skipped."""
        try:
            while True:
                self.receive()
        except Closed as closed:
            try:
                self.read(1)
            except Closed:
                return closed.terminate
            raise ValueError("bytes after the end") from None
