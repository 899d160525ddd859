"""The layout of values in DAFS messages, written from docs/wire.md alone: shares no code with ours."""

import struct

FORW, BACK, SAVE, FH, STATEID = 1, 2, 4, 8, 16
ZERO8, ZERO64 = bytes(8), bytes(64)

PROC = dict(
    CLIENT_AUTH=100, CLIENT_CONNECT=101, CLIENT_CONNECT_AUTH=102, CONNECT_BIND=103, DISCONNECT=104, REGISTER_CRED=105,
    RELEASE_CRED=106, SECINFO=108, SERVER_AUTH=109, CHECK_RESPONSE=110, FETCH_RESPONSE=111, DISCARD_RESPONSES=112,
    ACCESS=113, CACHE_HINT=114, CLOSE=115, COMMIT=116, CREATE=117, DELEGPURGE=118, DELEGRETURN=119, GET_FSATTR=122,
    GET_ROOT_HANDLE=123, GETATTR_INLINE=124, GETATTR_DIRECT=125, LINK=126, LOCK=127, LOCKT=128, LOCKU=129, LOOKUP=130,
    LOOKUPP=131, NULL=132, NVERIFY=133, OPEN=134, OPEN_DOWNGRADE=135, OPENATTR=136, READ_INLINE=137, READ_DIRECT=138,
    READDIR_INLINE=139, READDIR_DIRECT=140, READLINK_INLINE=141, READLINK_DIRECT=142, REMOVE=143, RENAME=144,
    SETATTR_INLINE=145, SETATTR_DIRECT=146, VERIFY=147, BATCH_SUBMIT=148, WRITE_INLINE=149, WRITE_DIRECT=150,
    BC_GETATTR=151, BC_NULL=152, BC_RECALL=153, BC_BATCH_COMPLETION=155, APPEND_INLINE=156, APPEND_DIRECT=157,
    GET_FENCING_LIST=158, SET_FENCING_LIST=159, HURRY_UP=160, PROMISES=1020, EXTENSIONS=1030)

STATUS = {
    0: "OK", 1: "PERM", 2: "NOENT", 5: "IO", 6: "NXIO", 13: "ACCES", 17: "EXIST", 18: "XDEV", 19: "NODEV", 20: "NOTDIR",
    21: "ISDIR", 22: "INVAL", 27: "FBIG", 28: "NOSPC", 30: "ROFS", 31: "MLINK", 63: "NAMETOOLONG", 66: "NOTEMPTY",
    69: "DQUOT", 70: "STALE", 10001: "BADHANDLE", 10003: "BAD_COOKIE", 10004: "NOTSUPP", 10005: "TOOSMALL",
    10006: "SERVERFAULT", 10007: "BADTYPE", 10008: "DELAY", 10009: "SAME", 10010: "DENIED", 10011: "EXPIRED",
    10012: "LOCKED", 10013: "GRACE", 10014: "FHEXPIRED", 10015: "SHARE_DENIED", 10016: "WRONGSEC", 10017: "CLID_INUSE",
    10018: "RESOURCE", 10019: "MOVED", 10020: "NOFILEHANDLE", 10022: "STALE_CLIENTID", 10023: "STALE_STATEID",
    10024: "OLD_STATEID", 10025: "BAD_STATEID", 10027: "NOT_SAME", 10028: "LOCK_RANGE", 10029: "SYMLINK",
    10030: "READDIR_NOSPC", 10031: "LEASE_MOVED", 15002: "ILLEGAL_PROT", 15003: "ILLEGAL_STATE",
    15004: "UNKNOWN_SESSION", 15005: "NOXID_MATCH", 15006: "NOT_AUTHORIZED", 15008: "RDMA_READ_CHANNEL_UNUSABLE",
    15009: "CHAIN_FORM", 15010: "CHAIN_BROKEN", 15011: "GSS_CONTINUE_INIT", 15012: "BAD_SESSION", 15013: "NO_CREDS",
    15015: "DENYDISP_CONFLICT", 15016: "DENYDISP_NOTSUPP", 15017: "KEY_MISMATCH", 15018: "WRITE_TOOBIG",
    15019: "BACK_CHANNEL_UNUSABLE", 15020: "CHKSUM", 15021: "NO_PARTIAL_INFO", 15022: "LOCK_BROKEN",
    15023: "BATCH_REQUEST_NOT_FOUND", 15024: "WHOA_COWBOY", 15025: "PREFETCH_NOT_SUPPORTED",
    15026: "NOT_AUTHENTICATED", 16000: "DEADLOCK"}

# WIRE 5.2 and 5.3: {number: (name, kind, size, alignment)}. Kinds: u (integer), t (time), s (settime), d (device),
# h (filehandle), S (string), A (ACL), L (locations), x (opaque).
FATTR = {
    1: ("NAMED_ATTR", "u", 1), 2: ("ARCHIVE", "u", 1), 3: ("HIDDEN", "u", 1), 4: ("SYSTEM", "u", 1),
    5: ("OBJECT_TYPE", "u", 4), 6: ("MODE", "u", 4), 7: ("NUM_LINKS", "u", 4), 8: ("CHANGE", "u", 8),
    9: ("OBJECT_SIZE", "u", 8), 10: ("FILE_ID", "u", 8), 11: ("SPACE_USED", "u", 8), 12: ("TIME_ACCESS", "t", 16),
    13: ("TIME_ACCESS_SET", "s", 24), 14: ("TIME_BACKUP", "t", 16), 15: ("TIME_CREATE", "t", 16),
    16: ("TIME_DELTA", "t", 16), 17: ("TIME_METADATA", "t", 16), 18: ("TIME_MODIFY", "t", 16),
    19: ("TIME_MODIFY_SET", "s", 24), 20: ("RAW_DEV", "d", 16), 21: ("FILEHANDLE", "x", 64), 22: ("ACL", "A", 4),
    23: ("MIME_TYPE", "S", 4), 24: ("OWNER", "S", 4), 25: ("OWNER_GROUP", "S", 4)}
FSATTR = {
    **{number: (name, "u", 1) for number, name in enumerate(
        "LINK_SUPPORT SYMLINK_SUPPORT CAN_SET_TIME CASE_INSENSITIVE CASE_PRESERVING CHOWN_RESTRICTED HOMOGENEOUS "
        "NO_TRUNC UNIQUE_HANDLE".split(), 1)},
    **{number: (name, "u", 4) for number, name in enumerate(
        "LEASE_TIME RD_ATTR_ERROR ACL_SUPPORT MAX_LINK MAX_NAME".split(), 10)},
    **{number: (name, "u", 8) for number, name in enumerate(
        "SUPPORTED_FATTR SUPPORTED_FSATTR FILES_AVAILABLE FILES_FREE FILES_TOTAL MAX_FILE_SIZE MAX_READ MAX_WRITE "
        "QUOTA_HARD QUOTA_SOFT QUOTA_USED SPACE_AVAILABLE SPACE_FREE SPACE_TOTAL".split(), 15)},
    29: ("FSHANDLE", "x", 16), 30: ("FAILOVER_LOCATIONS", "L", 4), 32: ("MAX_APPEND", "u", 8),
    33: ("PREF_IO_SIZE", "u", 8), 34: ("FH_EXPIRE_TYPE", "u", 4)}
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
BIT = {name: 1 << number - 1 for number, (name, _, _) in FATTR.items()}
FSBIT = {name: 1 << number - 1 for number, (name, _, _) in FSATTR.items()}
ALL_FATTR, ALL_FSATTR = sum(BIT.values()), sum(FSBIT.values())


def up8(size):
    return size + -size % 8


def _alignment(kind, size):
    return size if kind == "u" else 4 if kind in "SAL" else 8


class Layout:
    """Bytes with typed fields, in one byte order; heap items measured from `scope`."""

    def __init__(self, order, size=0, scope=0):
        self.order = order
        self.bytes = bytearray(size)
        self.scope = scope

    def put(self, at, kind, value):
        data = value if kind == "raw" else struct.pack(self.order + kind, value)
        if len(self.bytes) < at + len(data):
            self.bytes += bytes(at + len(data) - len(self.bytes))
        self.bytes[at:at + len(data)] = data
        return self

    def item(self, at, data):
        """Appends a heap item and puts its offset at `at`; None leaves the offset 0."""
        if data is None:
            return self
        self.bytes += bytes(-len(self.bytes) % 8)
        start = len(self.bytes)
        self.bytes += data
        return self.put(at, "I", start - self.scope)


def counted(order, data):
    """A string or opaque<>."""
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(order + "I", len(data)) + data


def pathname(order, names):
    item = bytearray(struct.pack(order + "II", len(names), 0))
    for name in names:
        item += bytes(-len(item) % 8) + counted(order, name)
    return bytes(item)


def buffers(order, elements):
    """An array of dafs_direct_op_buffer_type, from (address, size, STag)."""
    return struct.pack(order + "II", len(elements), 0) + b"".join(struct.pack(order + "QII", *e) for e in elements)


def _value(order, kind, size, value):
    if kind == "u":
        return struct.pack(order + _UNSIGNED[size], value)
    if kind == "t":
        return struct.pack(order + "qI4x", *value)
    if kind == "s":  # None: the server's time
        return struct.pack(order + "qI4xI4x", *(value or (0, 0)), 2 if value else 1)
    if kind == "d":
        return struct.pack(order + "QQ", *value)
    return value


def attributes(order, values, included=None, valid=None, table=None):
    """An attributes structure from {name: value}."""
    table = table or FATTR
    given = {number: values[name] for number, (name, _, _) in table.items() if name in values}
    bits = sum(1 << number - 1 for number in given)
    structure = Layout(order, 16)
    structure.put(0, "Q", bits if included is None else included)
    structure.put(8, "Q", bits if valid is None else valid)
    heap = []
    for number, value in sorted(given.items()):
        _, kind, size = table[number]
        at = len(structure.bytes) + -len(structure.bytes) % _alignment(kind, size)
        if kind in "SAL":
            structure.put(at, "I", 0)
            heap.append((at, counted(order, value) if kind == "S" else acl(order, value)))
        else:
            structure.put(at, "raw", _value(order, kind, size, value))
    structure.bytes += bytes(-len(structure.bytes) % 8)
    for at, data in heap:
        structure.item(at, data)
    return bytes(structure.bytes)


def acl(order, entries):
    """From (type, flag, mask, who)."""
    array = Layout(order)
    array.put(0, "I", len(entries))
    for index, entry in enumerate(entries):
        array.put(4 + 16 * index, "raw", struct.pack(order + "IIII", *entry[:3], 0))
    for index, entry in enumerate(entries):
        array.item(4 + 16 * index + 12, counted(order, entry[3]))
    return bytes(array.bytes)


def read_counted(order, data, at):
    size, = struct.unpack_from(order + "I", data, at)
    if at + 4 + size > len(data):
        raise ValueError(f"string of {size} bytes at {at} of {len(data)}")
    return bytes(data[at + 4:at + 4 + size])


def read_attributes(order, data, at, table=None):
    """Returns (included, valid, {name: value of the valid ones})."""
    table = table or FATTR
    included, valid = struct.unpack_from(order + "QQ", data, at)
    if valid & ~included:
        raise ValueError(f"valid {valid:#x} outside included {included:#x}")
    values, position = {}, 16
    for number, (name, kind, size) in table.items():
        if not included >> number - 1 & 1:
            continue
        position += -position % _alignment(kind, size)
        raw = bytes(data[at + position:at + position + size])
        if len(raw) != size:
            raise ValueError(f"{name} lies outside the message")
        position += size
        if not valid >> number - 1 & 1:
            if any(raw):
                raise ValueError(f"{name} is not valid and not zero: {raw.hex()}")
        elif kind == "u":
            values[name], = struct.unpack(order + _UNSIGNED[size], raw)
        elif kind == "t":
            values[name] = struct.unpack(order + "qI4x", raw)
        elif kind == "d":
            values[name] = struct.unpack(order + "QQ", raw)
        elif kind == "x":
            values[name] = raw
        else:
            where, = struct.unpack(order + "I", raw)
            if kind == "S":
                values[name] = read_counted(order, data, at + where) if where else b""
            elif kind == "A":
                values[name] = _read_acl(order, data, at + where) if where else []
            else:
                values[name] = where
    if included >> 64 or any(included >> bit & 1 and bit + 1 not in table for bit in range(64)):
        raise ValueError(f"included has undefined bits: {included:#x}")
    return included, valid, values


def _read_acl(order, data, at):
    count, = struct.unpack_from(order + "I", data, at)
    entries = []
    for index in range(count):
        kind, flag, mask, who = struct.unpack_from(order + "IIII", data, at + 4 + 16 * index)
        entries.append((kind, flag, mask, read_counted(order, data, at + who)))
    return entries


def read_entries(order, data, at, wanted=True):
    """Returns [(cookie, name, {attributes})] of an array of direntry."""
    count, = struct.unpack_from(order + "I", data, at)
    entries = []
    for index in range(count):
        cookie, attrs, name = struct.unpack_from(order + "QII", data, at + 8 + 16 * index)
        if cookie in (0, 1, 2) or attrs % 8 or name % 8 or not name:
            raise ValueError(f"entry {index}: cookie {cookie}, offsets {attrs} and {name}")
        values = read_attributes(order, data, at + attrs)[2] if attrs else {}
        entries.append((cookie, read_counted(order, data, at + name), values))
    return entries


def fletcher(order, data):
    data = bytes(data) + bytes(len(data) % 2)
    s1, s2 = 0x0101, 0
    for word, in struct.iter_unpack(order + "H", data):
        s1 += word
        s1 -= 65535 if s1 > 65535 else 0
        s2 += s1
        s2 -= 65535 if s2 > 65535 else 0
    return struct.pack(order + "HH", s2, s1)
