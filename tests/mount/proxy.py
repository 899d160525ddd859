"""A TCP proxy between a mount and its server that breaks connections where a test says.

It relays bytes both ways and counts them. The plan names the n-th segment relayed in one direction, or the n-th byte,
counted over all connections, and what happens there: the connection is cut or reset, or goes silent until it is
released. Bytes of clients can also be held back while new connections work. Instead of its own connection, the n-th segment can end the control session of a client, or the Back-control
Channel alone. The proxy can also alter what it relays.
"""

import random
import selectors
import socket
import struct
import threading

CUT = "cut"  # both sides see an orderly end
RESET = "reset"  # both sides see a reset; data in flight is lost
STALL = "stall"  # nothing is relayed any more until release()

ALTERED_LEAST = 8192  # bytes of a segment that may be altered: segments that set up a connection are shorter

TO_SERVER = 0
TO_CLIENT = 1

OWN = "own"  # the connection that the segment comes from
BACK_CONTROL = "back control"  # the Back-control Channel of a client, any of them
CONTROL = "control"  # all connections of the session that has it

BACK_CONTROL_TYPE = 2  # docs/wire.md 11.1


def session_and_type(segment):
    """The session differentiator and channel type in the first segment of a client (RFC 5044, docs/wire.md 11.1)."""
    private = segment[20:36]
    order = ">" if private[:4] == b"DAFS" else "<"
    return private[4:12], struct.unpack(f"{order}I", private[12:16])[0] if len(private) == 16 else 0


class Proxy:
    """Listens on loopback; clients connect to `port`."""

    def __init__(self, server_port):
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.counts = [0, 0]  # segments relayed in each direction
        self.bytes = [0, 0]
        self.broken = 0  # how often a plan was carried out
        self.plan = None  # (direction, count, action, which connections)
        self.byte_plan = None
        self.altering = None  # (direction, segments between two that are altered)
        self.altered = 0
        self.dice = random.Random(1)
        self.stalled = False
        self.holding = set()  # sockets of clients of which no more is relayed
        self.held = set()  # those of them that have sent something, or ended
        self.pairs = {}  # socket: (its peer, direction of what it sends)
        self.channels = {}  # socket of a client: its session_and_type()
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = socket.socketpair()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake_read, selectors.EVENT_READ)
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def break_after(self, direction, segments, what, where=OWN):
        """Stops relaying at the `segments`-th segment from now on in `direction`, and does `what` to the connections
        `where`. With BACK_CONTROL and CONTROL it is a CUT or a RESET, and the segment is relayed afterwards."""
        with self.lock:
            self.plan = (direction, self.counts[direction] + segments, what, where)

    def break_nothing(self):
        """Drops a plan that was not carried out."""
        with self.lock:
            self.plan = self.byte_plan = None

    def break_at_byte(self, direction, number, what):
        """The same, after the `number`-th byte from now on."""
        with self.lock:
            self.byte_plan = (direction, self.bytes[direction] + number, what)

    def alter(self, direction, every):
        """From now on flips one bit of each `every`-th long segment in `direction`; None: of none."""
        with self.lock:
            self.altering = None if every is None else (direction, every)
            self.until_altered = every

    def flip(self, direction, data):
        """Returns `data`, altered if the plan says so."""
        if self.altering is None or self.altering[0] != direction or len(data) < ALTERED_LEAST:
            return data
        self.until_altered -= 1
        if self.until_altered > 0:
            return data
        self.until_altered = self.altering[1]
        self.altered += 1
        changed = bytearray(data)
        changed[self.dice.randrange(len(data))] ^= 1 << self.dice.randrange(8)
        return bytes(changed)

    def release(self):
        """Ends a stall."""
        with self.lock:
            self.stalled = False
        self.wake_write.send(b"x")

    def hold(self):
        """From now on relays nothing that the present connections send to the server, as if it were still under way in
        the network. New connections are relayed."""
        with self.lock:
            self.holding = {one for one, (_, direction) in self.pairs.items() if direction == TO_SERVER}

    def let_arrive(self):
        """Relays what was held, and what follows it."""
        with self.lock:
            self.holding = set()
        self.wake_write.send(b"x")

    def stall(self):
        with self.lock:
            self.stalled = True

    def close(self):
        self.ended = True
        self.wake_write.send(b"x")
        self.thread.join()
        for one in list(self.pairs):
            one.close()
        self.listener.close()

    # The proxy's thread

    def run(self):
        while not self.ended:
            for key, _ in self.selector.select(0.05 if self.stalled else None):
                if key.fileobj is self.wake_read:
                    self.wake_read.recv(4096)
                    self.watch_held()
                elif key.fileobj is self.listener:
                    if not self.stalled:
                        self.accept()
                elif key.fileobj in self.pairs and not self.stalled:
                    self.relay(key.fileobj)
            if self.stalled:
                threading.Event().wait(0.02)

    def accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port), timeout=5)
        except OSError:
            self.drop(client, RESET)
            return
        for one in (client, server):
            one.settimeout(10)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(one, selectors.EVENT_READ)
        self.pairs[client] = (server, TO_SERVER)
        self.pairs[server] = (client, TO_CLIENT)

    def watch_held(self):
        with self.lock:
            ready = self.held - self.holding
            self.held -= ready
        for one in ready:
            self.selector.register(one, selectors.EVENT_READ)

    def relay(self, source):
        peer, direction = self.pairs[source]
        with self.lock:
            held = source in self.holding
            if held:
                self.held.add(source)
        if held:
            self.selector.unregister(source)
            return
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.end(source, CUT)
            return
        if direction == TO_SERVER and source not in self.channels:
            self.channels[source] = session_and_type(data)
        with self.lock:
            data = self.flip(direction, data)
        keep = len(data) // 2  # a part of it arrives, so that messages are cut in the middle too
        with self.lock:
            self.counts[direction] += 1
            self.bytes[direction] += len(data)
            due = self.plan is not None and self.plan[0] == direction and self.counts[direction] >= self.plan[1]
            what = self.plan[2] if due else None
            if self.byte_plan is not None and self.byte_plan[0] == direction and \
                    self.bytes[direction] >= self.byte_plan[1]:
                what = self.byte_plan[2]
                keep = len(data) - (self.bytes[direction] - self.byte_plan[1])
                self.byte_plan = None
                self.broken += 1
            if due:
                where, self.plan = self.plan[3], None
                self.broken += 1
        if due and where != OWN:
            self.end_control(where, what)
            if source not in self.pairs:
                return
            what = None
        if what == STALL:
            self.stalled = True
            data_later = data
            self.wait_for_release()
            data = data_later
        elif what is not None:
            try:
                peer.sendall(data[:keep])
            except OSError:
                pass
            self.end(source, what)
            return
        try:
            peer.sendall(data)
        except OSError:
            self.end(source, RESET)

    def wait_for_release(self):
        while self.stalled and not self.ended:
            self.wake_read.settimeout(0.05)
            try:
                self.wake_read.recv(4096)
            except (TimeoutError, socket.timeout):
                pass
        self.wake_read.settimeout(None)

    def end_control(self, where, what):
        sessions = sorted(session for session, kind in self.channels.values() if kind == BACK_CONTROL_TYPE)
        chosen = self.dice.choice(sessions) if sessions else None
        for client, (session, kind) in list(self.channels.items()):
            if session == chosen and (where == CONTROL or kind == BACK_CONTROL_TYPE):
                self.end(client, what)

    def end(self, source, what):
        peer, _ = self.pairs[source]
        for one in (source, peer):
            with self.lock:
                is_watched = one not in self.held
                self.held.discard(one)
            if is_watched:
                self.selector.unregister(one)
            del self.pairs[one]
            self.channels.pop(one, None)
            self.drop(one, what)

    @staticmethod
    def drop(one, what):
        if what == RESET:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
