"""RPC-over-RDMA version 2, made from the draft (RPCRDMA2 7.2) and RFC 5531 alone: shares no code with ours."""

import struct

from iwarp import Connection

MSG, NOMSG, ERROR, OPTIONAL, CONNPROP, REQPROP, RESPROP, UPDPROP = 0, 1, 4, 5, 6, 7, 8, 9
CALL, REPLY = 0, 1
(ERR_VERS, ERR_BAD_XDR, ERR_INVAL_PROC, ERR_READ_CHUNKS, ERR_WRITE_CHUNKS, ERR_SEGMENTS, ERR_WRITE_RESOURCE,
 ERR_REPLY_RESOURCE, ERR_INVAL_OPTION, ERR_SYSTEM) = range(1, 11)
RECEIVE_SIZE, BACKWARD = 1, 2


def words(*values):
    return struct.pack(f"!{len(values)}I", *values)


def opaque(data):
    return words(len(data)) + data + bytes(-len(data) % 4)


def segment(handle, length, at=Connection.BASE):
    return struct.pack("!IIQ", handle, length, at)


def header(xid, proc, body=b"", version=2, credit=8):
    return words(xid, version, credit, proc) + body


def chunks(direction=CALL, invalidate=0, reads=(), writes=(), reply=None, version=2):
    """`reads`: (position, segment); `writes`: lists of segments; `reply`: a list of segments."""
    out = words(direction, invalidate) if version == 2 else b""
    out += b"".join(words(1, position) + one for position, one in reads) + words(0)
    out += b"".join(words(1, len(chunk)) + b"".join(chunk) for chunk in writes) + words(0)
    return out + (words(0) if reply is None else words(1, len(reply)) + b"".join(reply))


def properties(values):
    return words(len(values)) + b"".join(words(which) + opaque(data) for which, data in values)


def rpc_call(xid, program, version, procedure, arguments=b""):
    return words(xid, CALL, 2, program, version, procedure, 0, 0, 0, 0) + arguments


def rpc_reply(xid, results=b"", status=0):
    return words(xid, REPLY, 0, 0, 0, status) + results


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def word(self):
        self.at += 4
        return struct.unpack("!I", self.data[self.at - 4:self.at])[0]

    def words(self, count):
        return [self.word() for _ in range(count)]

    def opaque(self):
        size = self.word()
        self.at += size + -size % 4
        return self.data[self.at - size - -size % 4:self.at - (-size % 4)]

    def segments(self):
        found = []
        for _ in range(self.word()):
            handle, length, high, low = self.words(4)
            found.append((handle, length, high << 32 | low))
        return found

    def rest(self):
        return self.data[self.at:]


class Message:
    """A received message: fields of the header, and the RPC message after it as `payload`."""

    def __init__(self, data):
        reader = Reader(data)
        self.size = len(data)
        self.xid, self.version, self.credit, self.proc = reader.words(4)
        self.reads, self.writes, self.reply = [], [], None
        self.direction = self.invalidate = None
        if self.proc in (MSG, NOMSG):
            if self.version == 2:
                self.direction, self.invalidate = reader.words(2)
            while reader.word():
                position, handle, length, high, low = reader.words(5)
                self.reads.append((position, handle, length, high << 32 | low))
            while reader.word():
                self.writes.append(reader.segments())
            if reader.word():
                self.reply = reader.segments()
        elif self.proc == ERROR:
            self.error = reader.word()
        elif self.proc == RESPROP:
            self.done, self.rejected = (reader.words(reader.word()) for _ in range(2))
        if self.proc in (CONNPROP, REQPROP, RESPROP, UPDPROP):
            self.values = [(reader.word(), reader.opaque()) for _ in range(reader.word())]
        if self.proc == CONNPROP:
            self.no_change = reader.words(reader.word())
        self.payload = reader.rest()
