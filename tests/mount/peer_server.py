"""A DAFS server of its own, for tests: made from docs/wire.md, it shares no code with ours, and differs from it where
allowed.

Files live in memory. `Quirks` set its behaviour; each is allowed to a server, unless `hostile`. It offers only the
procedures that it must, and no private one. One process, one thread per connection.
"""

import dataclasses
import itertools
import os
import socket
import struct
import threading
import time

from iwarp import Closed, Connection
from layout import (ALL_FATTR, BACK, BIT, FATTR, FH, FORW, FSATTR, PROC, STATEID, STATUS, ZERO8, ZERO64, Layout,
                    attributes, counted, fletcher, read_attributes, read_counted, up8)

NAME = {number: name for name, number in PROC.items()}
CODE = {name: number for number, name in STATUS.items()}
FSHANDLE = b"a peer's files.."
REG, DIR, LNK = 1, 2, 5
MANDATORY = sum(BIT[name] for name in ("OBJECT_TYPE", "CHANGE", "OBJECT_SIZE", "FILE_ID", "FILEHANDLE"))
FS_MANDATORY = {"LINK_SUPPORT": 1, "SYMLINK_SUPPORT": 1, "LEASE_TIME": 60, "RD_ATTR_ERROR": 13, "FSHANDLE": FSHANDLE,
                "MAX_APPEND": 65536, "SUPPORTED_FATTR": 0, "SUPPORTED_FSATTR": 0}
SETTABLE = sum(BIT[name] for name in ("MODE", "OBJECT_SIZE", "OWNER", "OWNER_GROUP", "TIME_ACCESS_SET",
                                      "TIME_MODIFY_SET"))


MODIFYING = ("CLOSE", "COMMIT", "CREATE", "LINK", "OPEN", "REMOVE", "RENAME", "SETATTR_INLINE", "SETATTR_DIRECT",
             "WRITE_INLINE", "WRITE_DIRECT", "APPEND_INLINE", "APPEND_DIRECT")
FETCHING = ("GET_FSATTR", "GETATTR_INLINE", "GETATTR_DIRECT", "READ_INLINE", "READ_DIRECT", "READDIR_INLINE",
            "READDIR_DIRECT", "READLINK_INLINE", "READLINK_DIRECT")


@dataclasses.dataclass
class Quirks:
    """The ways in which this server differs from dafsd."""

    crc: bool = False
    request_size: int = 8192
    response_size: int = 8192
    requests: int = 8
    target: int = 0  # target_nreq of all responses except the connect response; 0: as many as requests
    read_most: int = 1 << 20  # bytes of one read
    write_most: int = 1 << 20  # bytes stored of one write
    entries_most: int = 1000  # of one READDIR
    known: int = ALL_FATTR  # file attributes that are supported
    missing: tuple = ()  # procedures that answer NOTSUPP
    delays: int = 0  # answers DELAY to this many requests first, per procedure
    refusal: str = "DELAY"  # ... or GRACE
    reorder: int = 0  # responses held back, then sent last first
    spec_cond: int = 0
    close_after: int = 0  # number of requests after which the connection is cut, again and again
    hostile: str = ""  # the fault of one response
    hostile_from: int = 12  # the number of the first request with that fault
    padding: bytes = b"\0"  # the bytes that pad the ends of messages
    connect_bytes: int = 0  # the size of connect responses
    rdma_read: bool = False  # the RDMA-read Channel is granted even if not requested, and must be bound


class Refuse(Exception):
    """Ends the request with this status; the result may be sent as well."""

    def __init__(self, status, body=b""):
        super().__init__(status)
        self.status, self.body = status, body


class Node:
    """A file, directory or symbolic link."""

    numbers = itertools.count(2)

    def __init__(self, kind, mode=0o755, parent=None):
        self.number = next(self.numbers)
        self.kind, self.mode, self.parent = kind, mode, parent
        self.data, self.children, self.links = bytearray(), {}, 1
        self.owner = self.group = "0"
        now = time.time_ns()
        self.access = self.modify = self.metadata = (now // 10**9, now % 10**9)
        self.change = 1
        self.handle = FSHANDLE + struct.pack("<Q", self.number) + b"node".ljust(40, b".")

    def touched(self):
        self.change += 1
        now = time.time_ns()
        self.modify = self.metadata = (now // 10**9, now % 10**9)

    def values(self):
        size = len(self.data) if self.kind != DIR else 4096
        return {"NAMED_ATTR": 0, "OBJECT_TYPE": self.kind, "MODE": self.mode, "NUM_LINKS": self.links,
                "CHANGE": self.change, "OBJECT_SIZE": size, "FILE_ID": self.number, "SPACE_USED": size,
                "TIME_ACCESS": self.access, "TIME_DELTA": (0, 1), "TIME_METADATA": self.metadata,
                "TIME_MODIFY": self.modify, "RAW_DEV": (0, 0), "FILEHANDLE": self.handle, "OWNER": self.owner,
                "OWNER_GROUP": self.group}


class State:
    """State that outlives connections: files, clients and opens."""

    def __init__(self, quirks):
        self.quirks = quirks
        self.lock = threading.RLock()
        self.root = Node(DIR)
        self.nodes = {self.root.handle: self.root}
        self.opens = {}  # state id: (handle, owner)
        self.clients = {}  # client_id_string: (verifier, client id)
        self.serial = itertools.count(1)
        self.requests = 0
        self.refused = {}
        self.sessions = {}  # session id: Session
        self.complaints = None  # a file: rules that the client broke
        data = self.add(self.root, "data", Node(DIR))
        self.add(data, "big", Node(REG, 0o644)).data = bytearray(b"big file" * 25_000)

    def add(self, directory, name, node):
        node.parent = directory
        directory.children[name] = node
        self.nodes[node.handle] = node
        directory.touched()
        return node


class Session(threading.Thread):
    """One connection."""

    def __init__(self, state, accepted):
        super().__init__(daemon=True)
        self.state, self.quirks = state, state.quirks
        self.accepted = accepted
        self.order, self.checksums = None, False
        self.handle = self.state_id = None
        self.broken = False
        self.nreq, self.busy, self.sequence, self.answered = 1, set(), {}, []
        self.unseen = []  # (stream, nreq before) of answers that the client may not have seen yet, oldest first
        self.first, self.fetched = True, False
        self.reader, self.bound = None, False  # the connection for RDMA reads; whether this is one
        self.held = []

    def run(self):
        accepted = self.accepted
        try:
            self.connection = Connection(accepted, 0x40 if self.quirks.crc else 0)
            while True:
                if self.held and not self.waiting():
                    self.flush()
                self.serve(self.connection.receive())
                while self.bound:  # the owner's thread reads from it now
                    time.sleep(60)
        except (Closed, OSError, ValueError) as ended:
            if isinstance(ended, ValueError):
                self.complain(str(ended))
        finally:
            accepted.close()

    def waiting(self):
        """Whether a further request has arrived or arrives within 5 ms."""
        if self.connection.messages or self.connection.buffer:
            return True
        self.accepted.settimeout(0.005)
        try:
            return bool(self.accepted.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self.accepted.settimeout(30)

    def flush(self):
        for message in reversed(self.held):
            self.connection.send(message)
        self.busy.difference_update(self.answered)
        self.held, self.answered = [], []

    def serve(self, message):
        quirks = self.quirks
        if self.order is None:
            self.order = {b"SFAD": "<", b"DAFS": ">"}[message[:4]]
        self.message, self.body = message, message[40:]
        (magic, version, self.desired, self.flags, stream, seq, self.analyzer, checksum, self.cred, procedure,
         length) = struct.unpack_from(self.order + "IIHHHH8s4s4sII", message)
        if magic != 0x44414653 or version != 1 or length != len(message) or length % 8:
            raise ValueError(f"header {message[:40].hex()}")
        if self.checksums and checksum != fletcher(self.order, message[:24] + bytes(4) + message[28:]):
            raise ValueError("checksum of a request")
        name = NAME.get(procedure, "")
        with self.state.lock:
            self.check(name, stream, seq)
            self.state.requests += 1
            number = self.state.requests
            status, body, data = self.execute(name)
        self.first = self.first and status != "OK"
        due = self.checksums and name not in ("CLIENT_CONNECT", "CLIENT_CONNECT_AUTH", "CONNECT_BIND")
        body = bytes(body)
        whole = 40 + len(body) + len(data)
        body += data + quirks.padding * (up8(whole) - whole)
        if name.startswith("CLIENT_CONNECT"):
            body += bytes(max(0, quirks.connect_bytes - 40 - len(body)))
        target = quirks.target if quirks.target and not name.startswith("CLIENT_CONNECT") else quirks.requests
        target = 1 if self.first else target  # a connect request that failed, WIRE 11.4
        response = struct.pack(self.order + "IIHHHH8s4sIII", 0x44414652, 1, target, quirks.spec_cond, stream, seq,
                               self.analyzer, bytes(4), CODE[status], 40 + len(body), 0) + body
        if due:
            response = response[:24] + fletcher(self.order, response) + response[28:]
        if quirks.hostile and number >= quirks.hostile_from:
            response = spoil(self, quirks.hostile, response)
        if quirks.close_after and number % quirks.close_after == 0:
            raise Closed
        self.unseen.append((stream, self.nreq))
        self.nreq = target if name.startswith("CLIENT_CONNECT") else max(self.nreq - 1, target)
        self.held.append(response)
        self.answered.append(stream)
        if len(self.held) > quirks.reorder:
            self.flush()

    def check(self, name, stream, seq):
        """Notes the rules that this request breaks (WIRE 3.1, 8.1, 11.5)."""
        connects = name.startswith("CLIENT_CONNECT") or name == "CONNECT_BIND"
        if self.first != connects:
            self.complain(f"{name} {'first' if self.first else 'on a session'}")
        # A client that reuses a stream has seen the stream's last answer and all earlier ones. Later answers are
        # unknown.
        seen = [place for place, (answered, _) in enumerate(self.unseen) if answered == stream]
        if seen:
            del self.unseen[:seen[-1] + 1]
        allowed = max([self.nreq, *(before for _, before in self.unseen)])
        if stream >= allowed or stream in self.busy or len(self.busy) >= allowed:
            self.complain(f"{name} on stream {stream} of {allowed}, in use {self.busy}")
        if not connects and stream in self.sequence and seq != (self.sequence[stream] + 1) % 65536:
            self.complain(f"{name} with number {seq} after {self.sequence[stream]}")
        self.busy.add(stream)
        if not connects:
            self.sequence[stream] = seq
        self.fetched = bool(self.flags & BACK) and self.fetched
        if self.fetched and name in MODIFYING:
            self.complain(f"{name} after a bulk fetch")
        self.fetched = self.fetched or name in FETCHING
        if name == "CREATE" and self.get("I", 68) == REG:
            self.complain("CREATE of a regular file")

    def complain(self, text):
        os.write(self.state.complaints, text.encode() + b"; ")

    def execute(self, name):
        """Runs one request; returns (status, body, data after the body)."""
        back, forw = bool(self.flags & BACK), bool(self.flags & FORW)
        if not back:
            self.handle = self.state_id = None
            self.broken = False
        status, body, data = "CHAIN_BROKEN", b"", b""
        if not self.broken:
            try:
                procedure = getattr(self, "do_" + name.lower(), None)
                if procedure is None or name in self.quirks.missing:
                    raise Refuse("NOTSUPP")
                if self.state.refused.get(name, 0) < self.quirks.delays and name not in (
                        "CLIENT_CONNECT", "CLIENT_CONNECT_AUTH", "CLIENT_AUTH", "DISCONNECT", "SECINFO"):
                    self.state.refused[name] = self.state.refused.get(name, 0) + 1
                    raise Refuse(self.quirks.refusal)
                result = procedure()
                body, data = result if isinstance(result, tuple) else (result or b"", b"")
                status = "OK"
            except Refuse as refusal:
                status, body = refusal.status, refusal.body
                if not body and name.startswith("SETATTR") and status != "NOTSUPP":
                    body = bytes(8)
        self.broken = (self.broken or status != "OK") and forw
        return status, body, data

    # Arguments

    def get(self, kind, at):
        values = struct.unpack_from(self.order + kind, self.body, at)
        return values[0] if len(values) == 1 else values

    def raw(self, at, size):
        return bytes(self.body[at:at + size])

    def string(self, at):
        where = self.get("I", at)
        return read_counted(self.order, self.body, where) if where else b""

    def name(self, at):
        return self.string(at).decode()

    def path(self, at):
        where = self.get("I", at)
        count, position, names = self.get("I", where), where + 8, []
        for _ in range(count):
            position = up8(position)
            names.append(read_counted(self.order, self.body, position).decode())
            position += 4 + len(names[-1].encode())
        return names

    def attributes(self, at):
        where = self.get("I", at)
        return read_attributes(self.order, self.body, where)[2] if where else {}

    def buffers(self, at):
        where = self.get("I", at)
        return [self.get("QII", where + 8 + 16 * n) for n in range(self.get("I", where))] if where else []

    def node(self, at=0):
        """The object that the handle at `at`, or the chain, names; it becomes the current one."""
        handle = self.handle if self.flags & FH else self.raw(at, 64)
        if handle is None:
            raise Refuse("NOFILEHANDLE")
        node = self.state.nodes.get(handle)
        if node is None:
            raise Refuse("STALE" if handle[:16] == FSHANDLE else "BADHANDLE")
        self.handle = handle
        return node

    def directory(self, at=0):
        node = self.node(at)
        if node.kind != DIR:
            raise Refuse("SYMLINK" if node.kind == LNK else "NOTDIR")
        return node

    def opened(self, at, node):
        state = self.state_id if self.flags & STATEID else self.raw(at, 8)
        if state != ZERO8:
            if state not in self.state.opens or self.state.opens[state][0] != node.handle:
                raise Refuse("BAD_STATEID")
        self.state_id = state
        return state

    def layout(self, size):
        return Layout(self.order, size)

    def file_attributes(self, node, bits):
        included = bits & ALL_FATTR
        values = {name: value for name, value in node.values().items() if BIT[name] & included & self.quirks.known}
        valid = sum(BIT[name] for name in values)
        blanks = {name: {"t": (0, 0), "s": (0, 0), "d": (0, 0), "x": bytes(size), "S": None, "A": None}.get(kind, 0)
                  for name, kind, size in FATTR.values() if BIT[name] & included & ~valid}
        return blank_attributes(self.order, {**blanks, **values}, included, valid, FATTR)

    def change(self, directory, before, after=None):
        return struct.pack(self.order + "QQII", before, directory.change if after is None else after, 1, 0)

    # Sessions

    def do_client_connect(self, size=56):
        checks, cache = self.get("I", 0), 0
        self.checksums = bool(checks)
        quirks = self.quirks
        body = self.layout(size)
        identity, verifier = self.string(40), self.raw(48, 8)
        asked = dict(zip(("request_size", "response_size", "requests"), self.get("III", 12)))
        granted = {name: min(getattr(quirks, name), wish // 8 * 8 or 2**31) for name, wish in asked.items()}
        granted["requests"] = quirks.requests  # requested or not
        self.response_size = granted["response_size"]
        known = self.state.clients.get(identity)
        if known is None or known[0] != verifier:
            known = self.state.clients[identity] = (verifier, struct.pack("<Q", next(self.state.serial)))
        session_id = os.urandom(8)
        self.state.sessions[session_id] = self
        body.put(0, "raw", session_id).put(8, "raw", known[1])
        for at, value in ((16, checks), (20, cache), (24, self.get("I", 8) or 16), (28, granted["request_size"]),
                          (32, granted["response_size"]), (36, granted["requests"]), (40, 0), (44, 0),
                          (48, int(quirks.rdma_read))):
            body.put(at, "I", value)
        return body.bytes

    def do_client_connect_auth(self):
        body = self.do_client_connect(72)
        struct.pack_into(self.order + "I", body, 52, self.get("I", 56))
        body[68] = 1
        return body

    def do_connect_bind(self):
        owner = self.state.sessions.get(self.raw(0, 8))
        if owner is None:
            raise Refuse("UNKNOWN_SESSION")
        if self.get("H", 8) != 2 or not self.quirks.rdma_read or owner.reader is not None:
            raise Refuse("ILLEGAL_STATE")
        owner.reader = self.connection
        self.bound = True
        return self.raw(12, 12) + struct.pack(self.order + "IIIIBxxx", self.get("I", 24), 0, 0, 0, 1)

    def do_client_auth(self):
        return struct.pack(self.order + "IIIIBxxx", self.get("I", 0), 0, 0, 0, 1)

    def do_secinfo(self):
        return struct.pack(self.order + "IxxxxI", 8, 2) + struct.pack(self.order + "IIIIIIII", 0, 0, 0, 0, 3, 0, 0, 0)

    def do_disconnect(self):
        return b""

    do_null = do_disconnect
    do_release_cred = do_disconnect

    def do_register_cred(self):
        return struct.pack("<I", next(self.state.serial))

    # Names

    def do_get_root_handle(self):
        self.handle = self.state.root.handle
        return self.handle

    def do_lookup(self):
        node, count = self.directory(), 0
        start = node
        for name in self.path(64):
            status = "OK" if node.kind == DIR and name in node.children else "NOENT" if node.kind == DIR else \
                "SYMLINK" if node.kind == LNK else "NOTDIR"
            if status != "OK":
                found = ZERO64 if node is start else node.handle
                raise Refuse(status, bytes(self.layout(72).put(0, "raw", found).put(64, "I", count).bytes))
            node, count = node.children[name], count + 1
        self.handle = node.handle
        return self.layout(72).put(0, "raw", node.handle).put(64, "I", count).bytes

    def do_lookupp(self):
        node = self.directory()
        if node.parent is None:
            raise Refuse("NOENT")
        self.handle = node.parent.handle
        return self.handle

    def do_create(self):
        directory, name, kind = self.directory(), self.name(64), self.get("I", 68)
        if name in directory.children:
            raise Refuse("EXIST")
        if kind not in (DIR, LNK):
            raise Refuse("BADTYPE")
        before = directory.change
        node = self.state.add(directory, name, Node(kind))
        if kind == LNK:
            node.data = bytearray(self.string(72))
        else:
            self.set(node, self.attributes(88))
        self.handle = node.handle
        return node.handle + self.change(directory, before)

    def do_remove(self):
        directory, name = self.directory(), self.name(64)
        node = directory.children.get(name)
        if node is None:
            raise Refuse("NOENT")
        if node.kind == DIR and node.children:
            raise Refuse("NOTEMPTY")
        before = directory.change
        del directory.children[name]
        directory.touched()
        node.links -= 1
        return self.change(directory, before)

    def do_rename(self):
        target = self.node(64)
        source = self.state.nodes[self.raw(0, 64)]
        old, new = self.name(128), self.name(132)
        if old not in source.children:
            raise Refuse("NOENT")
        befores = source.change, target.change
        replaced = target.children.get(new)
        if replaced is not None and replaced.kind == DIR and replaced.children:
            raise Refuse("EXIST")
        node = source.children.pop(old)
        target.children[new] = node
        node.parent = target
        source.touched()
        target.touched()
        return self.change(source, befores[0]) + self.change(target, befores[1])

    def do_link(self):
        target = self.node(64)
        node = self.state.nodes[self.raw(0, 64)]
        name = self.name(128)
        if name in target.children:
            raise Refuse("EXIST")
        before = target.change
        target.children[name] = node
        node.links += 1
        node.touched()
        target.touched()
        return self.change(target, before)

    def do_readlink_inline(self):
        node = self.node()
        if node.kind != LNK:
            raise Refuse("INVAL")
        return self.layout(8).item(0, counted(self.order, bytes(node.data))).bytes

    # Attributes

    def set(self, node, values):
        if unknown := set(values) - {name for name, bit in BIT.items() if bit & SETTABLE}:
            raise Refuse("INVAL" if unknown else "OK")
        for name, value in values.items():
            if name == "OBJECT_SIZE":
                del node.data[value:]
                node.data += bytes(value - len(node.data))
            elif name == "MODE":
                node.mode = value
            elif name == "OWNER":
                node.owner = value.decode()
            elif name == "OWNER_GROUP":
                node.group = value.decode()
        node.touched()
        return sum(BIT[name] for name in values)

    def do_setattr_inline(self):
        node = self.node()
        values = self.attributes(72)
        if ("OBJECT_SIZE" in values) != (self.opened(64, node) != ZERO8):
            self.complain("a change of size without a state id, or another with one")
        return struct.pack(self.order + "Q", self.set(node, values))

    def do_getattr_inline(self):
        bits = self.get("Q", 64)
        item = self.file_attributes(self.node(), bits) if bits & ALL_FATTR else None
        return self.layout(8 if item else 4).item(0, item).bytes

    def do_get_fsattr(self):
        self.node()
        bits = self.get("Q", 64)
        given = {name: value for name, value in FS_MANDATORY.items()}
        given["SUPPORTED_FATTR"] = self.quirks.known
        included = sum(1 << number - 1 for number in FSATTR if bits >> number - 1 & 1)
        values = {name: given.get(name, b"" if kind == "x" else None if kind == "L" else 0)
                  for number, (name, kind, _) in FSATTR.items() if included >> number - 1 & 1}
        valid = sum(1 << number - 1 for number, (name, _, _) in FSATTR.items() if name in given) & included
        item = blank_attributes(self.order, values, included, valid, FSATTR) if included else None
        return self.layout(8 if item else 4).item(0, item).bytes

    def do_access(self):
        self.node()
        bits = self.get("I", 64) & ~0x10
        return struct.pack(self.order + "II", bits, bits)

    # Files

    def do_open(self):
        claim, open_type, mode = self.get("I", 0), self.get("I", 88), self.get("I", 96)
        if claim != 0:
            raise Refuse("NOTSUPP")
        directory, names = self.directory(8), self.path(72)
        for name in names[:-1]:
            directory = directory.children.get(name) or self.refuse("NOENT")
        before, name = directory.change, names[-1]
        node = directory.children.get(name)
        if node is None:
            if not open_type:
                raise Refuse("NOENT", bytes(152))
            node = self.state.add(directory, name, Node(REG, 0o600))
            if mode != 2:
                self.set(node, self.attributes(104))
        elif open_type and mode:
            raise Refuse("EXIST", bytes(152))
        elif node.kind != REG:
            raise Refuse("ISDIR" if node.kind == DIR else "SYMLINK", bytes(152))
        elif open_type and mode == 0 and self.attributes(104).get("OBJECT_SIZE", 1) == 0:
            node.data.clear()
            node.touched()
        state = struct.pack(">Q", 0xABC0000000000000 | next(self.state.serial))
        self.state.opens[state] = (node.handle, self.string(116))
        self.handle, self.state_id = node.handle, state
        body = self.layout(152).put(0, "raw", node.handle).put(64, "raw", state)
        return body.put(72, "raw", self.change(directory, before)).put(96, "I", len(names)).bytes

    def refuse(self, status):
        raise Refuse(status, bytes(152))

    def do_close(self):
        node = self.node()
        state = self.opened(64, node)
        if self.state.opens.pop(state, None) is None:
            raise Refuse("BAD_STATEID")
        return b""

    def read(self, offset, count):
        node = self.node()
        if node.kind != REG:
            raise Refuse("INVAL")
        self.opened(64, node)
        data = bytes(node.data[offset:offset + min(count, self.quirks.read_most)])
        return int(offset + len(data) >= len(node.data)), data

    def do_read_inline(self):
        offset, count = self.get("Q", 72), self.get("I", 80)
        eof, data = self.read(offset, min(count, self.response_size - 48))
        claimed = len(data) + 4096 * (self.quirks.hostile == "overclaim")
        return struct.pack(self.order + "II", eof, claimed), data

    def do_read_direct(self):
        eof, data = self.read(self.get("Q", 72), self.get("I", 80))
        at = 0
        self.misplace(*self.buffers(88)[0])
        for address, size, stag in self.buffers(88):
            self.connection.rdma_write(stag, address, data[at:at + size])
            at += size
        sums = fletcher(self.order, data) if self.checksums else bytes(4)
        claimed = len(data) + 4096 * (self.quirks.hostile == "overclaim")
        return struct.pack(self.order + "II", eof, claimed) + sums

    def misplace(self, address, size, stag):
        """RDMA operations that no request allows."""
        how = self.quirks.hostile
        if how == "beyond":
            self.connection.rdma_write(stag, address + size - 4, b"evil evil")
        elif how == "before":
            self.connection.rdma_write(stag, address - 8, b"evil evil")
        elif how == "wrap":
            self.connection.rdma_write(stag, 2**64 - 4, b"evil evil")
        elif how == "stag":
            self.connection.rdma_write(stag ^ 0x5A5A00, address, b"evil evil")
        elif how == "peek":
            self.connection.rdma_read(stag, address, 8)

    def write(self, offset, data, stable, whole=False):
        node = self.node()
        self.opened(64, node)
        if not whole:
            data = data[:self.quirks.write_most]
        node.data += bytes(max(0, offset - len(node.data)))
        node.data[offset:offset + len(data)] = data
        node.touched()
        taken = len(data) + 4096 * (self.quirks.hostile == "overclaim")
        return struct.pack(self.order + "II", taken, stable) + b"verifier"

    def do_write_inline(self):
        return self.write(self.get("Q", 72), self.raw(96, self.get("I", 80)), self.get("I", 84))

    def do_write_direct(self):
        count, data = self.get("I", 80), b""
        reader = self.reader if self.quirks.rdma_read else self.connection
        if reader is None:
            raise Refuse("RDMA_READ_CHANNEL_UNUSABLE")
        for address, size, stag in self.buffers(96):
            if len(data) < count:
                data += reader.rdma_read(stag, address, min(size, count - len(data)))
        if self.checksums and fletcher(self.order, data) != self.raw(92, 4):
            raise Refuse("CHKSUM")
        return self.write(self.get("Q", 72), data, self.get("I", 84))

    def do_append_inline(self):
        node = self.node()
        at, count = len(node.data), self.get("I", 76)
        self.write(at, self.raw(88, count), 2, whole=True)
        return struct.pack(self.order + "Q8sI4x", at, b"verifier", 2)

    def do_commit(self):
        self.node()
        return b"verifier"

    # Directories

    def listing(self, maxcount):
        directory = self.node()
        if directory.kind != DIR:
            raise Refuse("NOTDIR")
        cookie, bits = self.get("Q", 64), self.get("Q", 88)
        names = sorted(directory.children)
        # Cookies lie far apart and do not grow with the names.
        after = {number * 0x1_0000_0001 + 7: name for number, name in enumerate(names)}
        if cookie and cookie not in after:
            raise Refuse("BAD_COOKIE")
        start = names.index(after[cookie]) + 1 if cookie else 0
        chosen = list(after.items())[start:start + self.quirks.entries_most]
        while True:
            array = Layout(self.order, 8 + 16 * len(chosen)).put(0, "I", len(chosen))
            for number, (one, name) in enumerate(chosen):
                array.put(8 + 16 * number, "Q", one)
                if bits & ALL_FATTR:
                    array.item(16 + 16 * number, self.file_attributes(directory.children[name], bits))
                array.item(20 + 16 * number, counted(self.order, name))
            if len(array.bytes) <= maxcount:
                break
            if len(chosen) == 1:
                raise Refuse("READDIR_NOSPC")
            chosen = chosen[:len(chosen) // 2]
        return int(start + len(chosen) >= len(names)), bytes(array.bytes)

    def do_readdir_inline(self):
        eof, array = self.listing(min(self.get("I", 84), self.response_size - 64))
        return self.layout(16).put(0, "raw", b"cookies!").put(8, "I", eof).item(12, array).bytes

    def do_readdir_direct(self):
        segments = self.buffers(96)
        eof, array = self.listing(min(self.get("I", 84), sum(size for _, size, _ in segments)))
        at = 0
        for address, size, stag in segments:
            self.connection.rdma_write(stag, address, array[at:at + size])
            at += size
        sums = fletcher(self.order, array) if self.checksums else bytes(4)
        return b"cookies!" + struct.pack(self.order + "I", eof) + sums


def blank_attributes(order, values, included, valid, table):
    """An attributes structure in which invalid fields are zero, and strings without value have no item."""
    structure = Layout(order, 16).put(0, "Q", included).put(8, "Q", valid)
    items = []
    for number, (name, kind, size) in table.items():
        if not included >> number - 1 & 1:
            continue
        at = len(structure.bytes)
        at += -at % (size if kind == "u" else 4 if kind in "SAL" else 8)
        value = values.get(name)
        if kind in "SAL":
            structure.put(at, "I", 0)
            if value is not None and valid >> number - 1 & 1:
                items.append((at, counted(order, value)))
        elif not valid >> number - 1 & 1:
            structure.put(at, "raw", bytes(size))
        else:
            whole = attributes(order, {name: value}, table=table)
            structure.put(at, "raw", whole[16:16 + size])
    structure.bytes += bytes(-len(structure.bytes) % 8)
    for at, data in items:
        structure.item(at, data)
    return bytes(structure.bytes)


def spoil(session, how, response):
    """Makes responses that a server must not send."""
    order = session.order
    response = bytearray(response)

    def put(at, kind, value):
        struct.pack_into(order + kind, response, at, value)

    if how == "magic":
        put(0, "I", 0x44414653)
    elif how == "order":
        response[0:4] = response[3::-1]
    elif how == "length":
        put(32, "I", len(response) + 8)
    elif how == "short":
        del response[-8:]
    elif how == "tiny":
        del response[16:]
    elif how == "sequence":
        put(14, "H", struct.unpack_from(order + "H", response, 14)[0] ^ 1)
    elif how == "stream":
        put(12, "H", 999)
    elif how == "analyzer":
        response[16:24] = b"nobody's"
    elif how == "status":
        put(28, "I", 77777)
    elif how == "header":
        del response[40:]
        put(32, "I", 40)
        put(28, "I", 0)
    elif how == "garbage":
        response[40:] = os.urandom(len(response) - 40)
    elif how == "ones":
        response[40:] = b"\xff" * (len(response) - 40)
    elif how == "long":
        response += bytes(70000)
        put(32, "I", len(response))
    elif how == "twice":
        session.held.append(bytes(response))
    elif how == "nreq":
        put(8, "H", 0)
    elif how == "silent":
        raise Closed
    elif how == "terminate":
        session.connection.send_raw(b"\0\x20" + os.urandom(64))
    return bytes(response)


def serve(listener, quirks, complaints):
    state = State(quirks)
    state.complaints = complaints
    while True:
        accepted, _ = listener.accept()
        Session(state, accepted).start()


class Server:
    """The server in a process of its own; `port` is where it listens."""

    def __init__(self, quirks=None, **given):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.complaints = os.memfd_create("complaints")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                serve(self.listener, quirks or Quirks(**given), self.complaints)
            finally:
                os._exit(0)
        self.listener.close()

    def stop(self):
        """Ends the server; returns its report on its clients."""
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        text = os.pread(self.complaints, 2000, 0).decode(errors="replace")
        os.close(self.complaints)
        return text
