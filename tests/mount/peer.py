"""A DAFS client of its own, for tests: made from docs/wire.md, it shares no code with ours.

A `Peer` sends requests on a Connection. It does what the test says, right or wrong, and checks no rule on the
client's behalf.
"""

import itertools
import struct

from iwarp import Connection, private_data
from layout import (ALL_FATTR, ALL_FSATTR, BACK, FORW, PROC, STATUS, ZERO8, ZERO64, Layout, attributes, buffers,
                    counted, fletcher,
                    pathname, read_attributes, read_counted)


class Response:
    """A response as it came. `status` is a name; `body` begins at message offset 40."""

    def __init__(self, order, message, conditions=3):
        self.order, self.message = order, message
        (self.magic, self.version, self.target_nreq, self.spec_cond, self.stream, self.sequence, self.analyzer,
         self.checksum, number, self.length, self.reserved) = struct.unpack_from(order + "IIHHHH8s4sIII", message)
        self.status = STATUS.get(number, str(number))
        self.body = message[40:]
        if self.magic != 0x44414652:
            raise ValueError(f"magic {self.magic:#x}")
        if self.length != len(message) or self.length % 8:
            raise ValueError(f"response_len {self.length} of {len(message)} bytes")
        if self.reserved % 8 or 0 < self.reserved < 40 or self.spec_cond & ~conditions:
            raise ValueError(f"reserved {self.reserved}, spec_cond {self.spec_cond}")
        if self.target_nreq == 0:
            raise ValueError("target_nreq 0")

    def get(self, kind, at):
        values = struct.unpack_from(self.order + kind, self.body, at)
        return values[0] if len(values) == 1 else values

    def raw(self, at, size):
        if at + size > len(self.body):
            raise ValueError(f"{size} bytes at {at} of {len(self.body)}")
        return bytes(self.body[at:at + size])

    def string(self, at):
        where = self.get("I", at)
        return read_counted(self.order, self.body, where) if where else b""

    def attributes_after(self):
        """{"current" or "other": ({attribute: value}, promise)} of those that come after the result."""
        found = {}
        for at, name in ((0, "current"), (8, "other")) if self.reserved else ():
            where, promise = struct.unpack_from(self.order + "II", self.message, self.reserved + at)
            if where:
                found[name] = read_attributes(self.order, self.message[self.reserved:], where)[2], promise
        return found

    def attributes(self, at=0, table=None):
        where = self.get("I", at)
        return read_attributes(self.order, self.body, where, table) if where else (0, 0, {})


class Request:
    """One request: procedure, fixed section with heap, and what its header holds."""

    def __init__(self, name, body=b"", data=None, data_at=None, **header):
        self.name, self.body, self.data, self.data_at, self.header = name, body, data, data_at, header


class Peer:
    """One Operation Channel. Every header field can be set; unset fields have the values of a correct client."""

    conditions = 3  # the bits of spec_cond that the server may set
    wants_after = False  # responses may carry attributes after the result

    def __init__(self, port, order="<", checksums=False, flags=0, name=None, connect=True, verifier=b"verifier",
                 tls=None, **wish):
        self.order, self.checksums = order, checksums
        self.connection = Connection(port, flags, private_data(order), tls=tls)
        self.next_seq = {}
        self.counter = itertools.count(1)
        self.cred = bytes(4)
        self.desired = 0
        self.session_id = self.client_id = None
        self.granted = 1
        self.limits = {}
        self.next_stag = 0x1000
        self.outstanding = []
        if connect:
            response = self.connect(name or "peer", verifier, **wish)
            if response.status != "OK":
                raise ValueError(f"CLIENT_CONNECT_AUTH: {response.status}")
            self.adopt(response)

    def close(self):
        self.connection.close()

    # Messages

    def layout(self, size):
        return Layout(self.order, size)

    def sequence(self, stream):
        number = self.next_seq.get(stream, 0xFFFE)  # soon wraps
        self.next_seq[stream] = (number + 1) % 65536
        return number

    def encode(self, request, **override):
        """The bytes of a request. Headers: stream, seq, flags, cred, version, magic, procedure, length, checksum."""
        header = {**request.header, **override}
        body = bytearray(request.body)
        if request.data is not None:
            at = request.data_at - 40
            body += bytes(max(0, at - len(body)))
            body[at:] = request.data
        body += bytes(-len(body) % 8)
        stream = header.get("stream", 0)
        seq = header["seq"] if "seq" in header else self.sequence(stream)
        analyzer = header.get("analyzer", struct.pack("!Q", next(self.counter) * 0x9E3779B97F4A7C15 % 2**64))
        length = header.get("length", 40 + len(body))
        message = struct.pack(self.order + "IIHHHH8s4s4sII", header.get("magic", 0x44414653), header.get("version", 1),
                              header.get("desired", self.desired), header.get("flags", 0), stream, seq, analyzer,
                              bytes(4), header.get("cred", self.cred),
                              header.get("procedure", PROC.get(request.name, 0)), length) + bytes(body)
        checksum = header.get("checksum")
        if checksum is None and self.checksums and self.session_id:
            checksum = fletcher(self.order, message)
        if checksum:
            message = message[:24] + checksum + message[28:]
        return message

    def submit(self, request, **override):
        message = self.encode(request, **override)
        self.outstanding.append((struct.unpack_from(self.order + "HH", message, 12), message[16:24]))
        self.connection.send(message)
        return message

    def result(self, checked=None):
        """The next response; checks its header against the oldest request that it can belong to."""
        message = self.connection.receive()
        response = Response(self.order, message, self.conditions)
        if response.reserved and not self.wants_after:
            raise ValueError(f"reserved {response.reserved}")
        key = ((response.stream, response.sequence), response.analyzer)
        if key not in self.outstanding:
            raise ValueError(f"response for {key}, outstanding {self.outstanding}")
        self.outstanding.remove(key)
        due = self.checksums and self.session_id if checked is None else checked
        bare = message[:24] + bytes(4) + message[28:]
        expected = fletcher(self.order, bare) if due else bytes(4)
        if response.checksum != expected:
            raise ValueError(f"message checksum {response.checksum.hex()}, expected {expected.hex()}")
        return response

    def call(self, request, **override):
        self.submit(request, **override)
        return self.result()

    def chain(self, requests, **override):
        """Sends a chain in one go, the flags FORW and BACK added, each member on a stream of its own; returns the
        responses in order of arrival."""
        messages = b""
        last = len(requests) - 1
        for index, request in enumerate(requests):
            flags = request.header.get("flags", 0) | (FORW if index < last else 0) | (BACK if index else 0)
            message = self.encode(request, **{"stream": index, **override, "flags": flags})
            self.outstanding.append((struct.unpack_from(self.order + "HH", message, 12), message[16:24]))
            messages += b"".join(self.connection.message(message))
        self.connection.send_raw(messages)
        return [self.result() for _ in requests]

    # Memory

    def register(self, data, limit=None):
        """Memory for direct transfers; returns its STag. `data` is a size or the content."""
        self.next_stag += 0x101
        self.connection.regions[self.next_stag] = bytearray(data)
        if limit is not None:
            self.connection.limits[self.next_stag] = limit
        return self.next_stag

    def memory(self, stag):
        return self.connection.regions[stag]

    def segment(self, stag, at=0, size=None):
        size = len(self.memory(stag)) - at if size is None else size
        return (Connection.BASE + at, size, stag)

    # Sessions

    def connect_body(self, name, verifier=b"verifier", credentials=0, request_size=0, response_size=0, requests=0,
                     header_size=0, cache=0, back_control=0, rdma_read=0, fence=None, size=56, auth=None):
        body = self.layout(size)
        for at, value in enumerate((int(self.checksums), cache, credentials, request_size, response_size, requests,
                                    header_size, back_control, rdma_read)):
            body.put(4 * at, "I", value)
        body.put(48, "raw", verifier)
        if auth is not None:
            body.put(56, "I", auth)
        if fence is not None:
            body.item(36, counted(self.order, fence))
        if name is not None:
            body.item(40, counted(self.order, name))
        return bytes(body.bytes)

    def connect(self, name, verifier=b"verifier", auth=0, **wish):
        """CLIENT_CONNECT_AUTH; `auth` None: CLIENT_CONNECT."""
        size = 56 if auth is None else 72
        body = self.connect_body(name, verifier, size=size, auth=auth, **wish)
        request = Request("CLIENT_CONNECT" if auth is None else "CLIENT_CONNECT_AUTH", body)
        self.submit(request)
        return self.result(checked=False)

    def adopt(self, response):
        """Takes over the values that a connect response granted."""
        self.session_id, self.client_id = response.raw(0, 8), response.raw(8, 8)
        names = "checksums cache credentials request_size response_size requests header_size back_control rdma_read"
        self.limits = dict(zip(names.split(), response.get("9I", 16)))
        self.granted = self.limits["requests"]

    def authenticate(self, kind=0):
        return self.call(Request("CLIENT_AUTH", struct.pack(self.order + "IIII", kind, 0, 0, 0)))

    def credential(self, uid=0, gid=0, groups=()):
        body = self.layout(16).put(0, "I", 1).put(4, "i", uid).put(8, "i", gid)
        if groups:
            body.item(12, struct.pack(f"{self.order}I{len(groups)}i", len(groups), *groups))
        response = self.call(Request("REGISTER_CRED", body.bytes))
        return response.raw(0, 4) if response.status == "OK" else response.status

    def act_as(self, uid=0, gid=0, groups=()):
        self.cred = self.credential(uid, gid, groups)

    # Requests by procedure; each returns a Request

    def handle_only(self, name, filehandle=ZERO64, **header):
        return Request(name, filehandle, **header)

    def lookup(self, directory=ZERO64, names=(), **header):
        body = self.layout(72).put(0, "raw", directory)
        return Request("LOOKUP", body.item(64, None if names is None else pathname(self.order, names)).bytes, **header)

    def getattr(self, filehandle=ZERO64, bits=ALL_FATTR, name="GETATTR_INLINE", **header):
        return Request(name, self.layout(72).put(0, "raw", filehandle).put(64, "Q", bits).bytes, **header)

    def fsattr(self, filehandle=ZERO64, bits=ALL_FSATTR, **header):
        return self.getattr(filehandle, bits, "GET_FSATTR", **header)

    def setattr(self, filehandle=ZERO64, values=None, state=ZERO8, raw=None, **header):
        item = raw if raw is not None else attributes(self.order, values) if values is not None else None
        body = self.layout(80).put(0, "raw", filehandle).put(64, "raw", state).item(72, item)
        return Request("SETATTR_INLINE", body.bytes, **header)

    def verify(self, filehandle=ZERO64, values=None, raw=None, name="VERIFY", **header):
        item = raw if raw is not None else attributes(self.order, values) if values is not None else None
        return Request(name, self.layout(72).put(0, "raw", filehandle).item(64, item).bytes, **header)

    def access(self, filehandle=ZERO64, bits=0x3F, **header):
        return Request("ACCESS", self.layout(72).put(0, "raw", filehandle).put(64, "I", bits).bytes, **header)

    def open(self, directory=ZERO64, names=("file",), create=None, mode=None, claim=0, access=3, deny=0, owner=b"owner",
             verifier=ZERO8, delete=0, key=None, key_type=None, attrs=None, raw=None, delegation=0, open_type=None,
             deleg_state=ZERO8, **header):
        """create: None, or a createmode 0 to 2. `mode` is short for attrs={"MODE": mode}."""
        if mode is not None:
            attrs = {**(attrs or {}), "MODE": mode}
        body = self.layout(144).put(0, "I", claim).put(8, "raw", directory)
        body.put(88, "I", (0 if create is None else 1) if open_type is None else open_type)
        if claim in (0, 2, 3):
            body.item(72, None if names is None else pathname(self.order, names))
        elif claim == 1:
            body.put(72, "I", delegation)
        if claim == 2:
            body.put(80, "raw", deleg_state)
        if create is not None:
            body.put(96, "I", create)
            if create == 2:
                body.put(104, "raw", verifier)
            elif raw is not None or attrs is not None:
                body.item(104, raw if raw is not None else attributes(self.order, attrs))
        body.put(112, "I", delete).put(120, "I", access).put(124, "I", deny)
        if key is not None:
            body.put(128, "I", 3).put(136, "Q", key)
        if key_type is not None:
            body.put(128, "I", key_type)
        if owner:
            body.item(116, counted(self.order, owner))
        return Request("OPEN", body.bytes, **header)

    def downgrade(self, filehandle=ZERO64, state=ZERO8, access=1, deny=0, key=None, **header):
        body = self.layout(96).put(0, "raw", filehandle).put(64, "raw", state).put(72, "I", access).put(76, "I", deny)
        if key is not None:
            body.put(80, "I", 3).put(88, "Q", key)
        return Request("OPEN_DOWNGRADE", body.bytes, **header)

    def close_file(self, filehandle=ZERO64, state=ZERO8, **header):
        return Request("CLOSE", filehandle + state, **header)

    def read(self, filehandle=ZERO64, offset=0, count=0, state=ZERO8, hint=0, **header):
        body = self.layout(88).put(0, "raw", filehandle).put(64, "raw", state).put(72, "Q", offset)
        return Request("READ_INLINE", body.put(80, "I", count).put(84, "I", hint).bytes, **header)

    def read_direct(self, filehandle, offset, count, segments, state=ZERO8, **header):
        body = self.layout(96).put(0, "raw", filehandle).put(64, "raw", state).put(72, "Q", offset).put(80, "I", count)
        return Request("READ_DIRECT", body.item(88, buffers(self.order, segments) if segments else None).bytes,
                       **header)

    def write(self, filehandle=ZERO64, offset=0, data=b"", state=ZERO8, stable=2, padded=False, count=None, **header):
        body = self.layout(96).put(0, "raw", filehandle).put(64, "raw", state).put(72, "Q", offset)
        body.put(80, "I", len(data) if count is None else count).put(84, "I", stable).put(88, "I", int(padded))
        at = self.limits["header_size"] if padded else 136
        return Request("WRITE_INLINE", body.bytes, data, at, **header)

    def write_direct(self, filehandle, offset, count, segments, state=ZERO8, stable=2, checksum=None, **header):
        body = self.layout(104).put(0, "raw", filehandle).put(64, "raw", state).put(72, "Q", offset)
        body.put(80, "I", count).put(84, "I", stable).put(92, "raw", checksum or bytes(4))
        return Request("WRITE_DIRECT", body.item(96, buffers(self.order, segments) if segments else None).bytes,
                       **header)

    def append(self, filehandle=ZERO64, data=b"", state=ZERO8, stable=2, padded=False, count=None, **header):
        body = self.layout(88).put(0, "raw", filehandle).put(64, "raw", state).put(72, "I", stable)
        body.put(76, "I", len(data) if count is None else count).put(80, "I", int(padded))
        at = self.limits["header_size"] if padded else 128
        return Request("APPEND_INLINE", body.bytes, data, at, **header)

    def append_direct(self, filehandle, count, segment, state=ZERO8, stable=2, checksum=None, **header):
        body = self.layout(104).put(0, "raw", filehandle).put(64, "raw", state).put(72, "I", stable)
        body.put(76, "I", count).put(84, "raw", checksum or bytes(4))
        return Request("APPEND_DIRECT", body.put(88, "raw", struct.pack(self.order + "QII", *segment)).bytes, **header)

    def one_buffer(self, name, filehandle, segment, bits=0, state=ZERO8, checksum=None, **header):
        """GETATTR_DIRECT, READLINK_DIRECT, SETATTR_DIRECT."""
        buffer = struct.pack(self.order + "QII", *segment)
        if name == "READLINK_DIRECT":
            return Request(name, filehandle + buffer, **header)
        if name == "GETATTR_DIRECT":
            return Request(name, filehandle + struct.pack(self.order + "Q", bits) + buffer, **header)
        return Request(name, filehandle + state + (checksum or bytes(4)) + bytes(4) + buffer, **header)

    def commit(self, filehandle=ZERO64, offset=0, count=0, **header):
        return Request("COMMIT", self.layout(80).put(0, "raw", filehandle).put(64, "Q", offset).put(72, "I",
                                                                                                    count).bytes,
                       **header)

    def create(self, directory=ZERO64, name="made", kind=2, link=None, device=None, attrs=None, raw=None, **header):
        body = self.layout(96).put(0, "raw", directory).put(68, "I", kind)
        body.item(64, None if name is None else counted(self.order, name))
        if device is not None:
            body.put(72, "raw", struct.pack(self.order + "QQ", *device))
        if link is not None:
            body.item(72, counted(self.order, link))
        if raw is not None or attrs is not None:
            body.item(88, raw if raw is not None else attributes(self.order, attrs))
        return Request("CREATE", body.bytes, **header)

    def link(self, source=ZERO64, directory=ZERO64, name="link", **header):
        body = self.layout(136).put(0, "raw", source).put(64, "raw", directory)
        return Request("LINK", body.item(128, counted(self.order, name)).bytes, **header)

    def rename(self, source=ZERO64, old="old", target=ZERO64, new="new", **header):
        body = self.layout(136).put(0, "raw", source).put(64, "raw", target)
        return Request("RENAME", body.item(128, counted(self.order, old)).item(132, counted(self.order, new)).bytes,
                       **header)

    def remove(self, directory=ZERO64, name="old", mode=0, **header):
        body = self.layout(72).put(0, "raw", directory).put(68, "I", mode)
        return Request("REMOVE", body.item(64, None if name is None else counted(self.order, name)).bytes, **header)

    def readdir(self, filehandle=ZERO64, cookie=0, verifier=ZERO8, dircount=0, maxcount=1 << 20, bits=0, segments=None,
                **header):
        body = self.layout(96 if segments is None else 104).put(0, "raw", filehandle).put(64, "Q", cookie)
        body.put(72, "raw", verifier).put(80, "I", dircount).put(84, "I", maxcount).put(88, "Q", bits)
        if segments:
            body.item(96, buffers(self.order, segments))
        return Request("READDIR_INLINE" if segments is None else "READDIR_DIRECT", body.bytes, **header)

    def lock(self, filehandle=ZERO64, state=ZERO8, kind=2, offset=0, length=2**64 - 1, options=0, **header):
        body = self.layout(96).put(0, "raw", filehandle).put(64, "I", kind).put(68, "I", options).put(72, "raw", state)
        return Request("LOCK", body.put(80, "Q", offset).put(88, "Q", length).bytes, **header)

    def lockt(self, filehandle=ZERO64, kind=2, owner=b"other", offset=0, length=2**64 - 1, **header):
        body = self.layout(88).put(0, "raw", filehandle).put(64, "I", kind).put(72, "Q", offset).put(80, "Q", length)
        return Request("LOCKT", body.item(68, counted(self.order, owner) if owner else None).bytes, **header)

    def locku(self, filehandle=ZERO64, state=ZERO8, kind=2, offset=0, length=2**64 - 1, **header):
        request = self.lock(filehandle, state, kind, offset, length, **header)
        request.name = "LOCKU"
        return request

    def batch(self, requests, synchronous=1, window=0, completions=0, **header):
        """From (filehandle, id, state, flag, [(offset, count, hint)], segments, checksum)."""
        array = Layout(self.order, 8 + 96 * len(requests)).put(0, "I", len(requests))
        for index, (filehandle, number, state, flag, chunks, segments, checksum) in enumerate(requests):
            at = 8 + 96 * index
            array.put(at, "raw", filehandle).put(at + 64, "Q", number).put(at + 72, "raw", state).put(at + 80, "I",
                                                                                                      flag)
            array.put(at + 92, "raw", checksum or bytes(4))
            if chunks:
                array.item(at + 84, struct.pack(self.order + "II", len(chunks), 0) + b"".join(
                    struct.pack(self.order + "QII", *chunk) for chunk in chunks))
            if segments:
                array.item(at + 88, buffers(self.order, segments))
        body = self.layout(16).put(4, "I", window).put(8, "I", completions).put(12, "B", synchronous)
        return Request("BATCH_SUBMIT", body.item(0, array.bytes if requests else None).bytes, **header)

    def response_of(self, name, session_id, stream, sequence, procedure, **header):
        """CHECK_RESPONSE and FETCH_RESPONSE."""
        return Request(name, session_id + struct.pack(self.order + "HHI", stream, sequence, PROC[procedure]), **header)

    # Shorthands that must succeed

    def must(self, request, **override):
        response = self.call(request, **override)
        if response.status != "OK":
            raise ValueError(f"{request.name}: {response.status}")
        return response

    def root(self):
        return self.must(Request("GET_ROOT_HANDLE")).raw(0, 64)

    def walk(self, *names):
        return self.must(self.lookup(self.root(), names)).raw(0, 64)

    def opened(self, directory, name, create=0, mode=0o644, **how):
        """Opens and returns (filehandle, state id)."""
        how.setdefault("mode", None if create == 2 or create is None else mode)
        response = self.must(self.open(directory, (name,), create, **how))
        return response.raw(0, 64), response.raw(64, 8)
