"""RPC-over-RDMA version 2 with an end that has no code in common with ours: as a server for dafsctl rpcping, and as a
client of wire/rpcrdma."""

import contextlib
import json
import socket
import struct
import subprocess
import threading

from iwarp import Closed, Connection
from rig import check, equal, scenario
from rpcrdma import (BACKWARD, CALL, CONNPROP, ERR_BAD_XDR, ERR_INVAL_OPTION, ERR_INVAL_PROC, ERR_READ_CHUNKS, ERR_SEGMENTS,
                     ERR_VERS, ERR_WRITE_RESOURCE, ERROR, MSG, NOMSG, OPTIONAL, RECEIVE_SIZE, REPLY, REQPROP, RESPROP,
                     Message, Reader, chunks, header, opaque, properties, rpc_call, rpc_reply, segment, words)

PROGRAM, VERSION = 300000, 4


class Server:
    """Accepts connections one after the other. `answer(connection, message)` answers each message."""

    def __init__(self, answer):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.answer = answer
        self.connections = 0
        self.messages = []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            try:
                accepted, _ = self.listening.accept()
            except OSError:
                return
            accepted.settimeout(30)
            self.connections += 1
            with contextlib.suppress(Closed, OSError):
                connection = Connection(accepted)
                while True:
                    self.messages.append(Message(connection.receive()))
                    self.answer(connection, self.messages[-1])
            accepted.close()

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()


def rpcping(rig, port, *more):
    """Returns (exit status, output, error)."""
    command = [rig.bin / "dafsctl", "rpcping", *more, f"tcp:127.0.0.1:{port}", str(PROGRAM), str(VERSION)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def serving(answer):
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()


@scenario(timeout=60, where="server", loopback=True)
def rpcping_foreign_server(rig):
    """dafsctl rpcping agrees on version 2 with a foreign server and reports its credits and properties.

    Shows RPCRDMA2-8-02, RPCRDMA2-8-03, RPCRDMA2-7.2-01, RPCRDMA2-6.3-03, RPCRDMA2-6.3.1-01, RPCRDMA2-8.4-01: the
    announced properties are in the clear."""
    def answer(connection, message):
        if message.proc != MSG:
            return
        connection.send(header(message.xid, MSG, chunks(REPLY), credit=5) + rpc_reply(message.xid))
        announced = properties([(RECEIVE_SIZE, words(8192)), (4711, b"?"), (BACKWARD, words(0))]) + words(0)
        connection.send(header(1, CONNPROP, announced))

    with serving(answer) as server:
        status, text, _ = rpcping(rig, server.port, "--json", "-c", "2")
    equal(status, 0, "exit status")
    report = json.loads(text)
    equal((report["rpcrdma_version"], report["credits"], report["inline_bytes"]), (2, 5, 8192), "the report")
    equal(report["properties"], {"receive_size": 8192, "backward": "none"}, "properties")
    equal(len(report["calls_us"]), 2, "times")
    first, announced = server.messages[0], [one for one in server.messages if one.proc == CONNPROP]
    equal((first.version, first.proc, first.direction, first.invalidate), (2, MSG, CALL, 0), "the first message")
    check(first.size <= 1024, f"the first message has {first.size} bytes")
    equal(Reader(first.payload).words(6), [first.xid, CALL, 2, PROGRAM, VERSION, 0], "the RPC call")
    equal(len(announced), 1, "announcements of the client")
    equal(dict(announced[0].values)[RECEIVE_SIZE], words(4096), "the announced receive size")


@scenario(timeout=60, where="server", loopback=True)
def rpcping_foreign_version_1(rig):
    """dafsctl rpcping goes on in version 1: on the same connection if version 2 is refused, and on another if the server
    drops the first one.

    Shows RPCRDMA2-8-05, RPCRDMA2-8-06."""
    def answer(connection, message):
        if message.version == 1:
            connection.send(header(message.xid, MSG, chunks(version=1), version=1) + rpc_reply(message.xid))
        elif refuses:
            connection.send(header(message.xid, ERROR, words(ERR_VERS, 1, 1)))
        else:
            raise Closed

    for refuses in (True, False):
        with serving(answer) as server:
            status, text, error = rpcping(rig, server.port, "-c", "1")
        equal(status, 0, f"exit status ({error})")
        wanted = "refused version 2 and takes 1 to 1" if refuses else "closed the connection when offered version 2"
        check(f"version 1; the server {wanted}" in text, f"dafsctl rpcping prints {text}")
        equal([one.version for one in server.messages], [2, 1, 1], "versions of the messages")
        equal(server.connections, 1 if refuses else 2, "connections")


@scenario(timeout=60, where="server", loopback=True)
def rpcping_hostile_server(rig):
    """dafsctl rpcping ends with a reason, in time, if the server never answers or answers wrongly."""
    def reply(message, body=None, **how):
        return header(message.xid, MSG, chunks(REPLY), **how) + (rpc_reply(message.xid) if body is None else body)

    answers = {
        "no reply within": lambda m: None,
        "replies named other XIDs": lambda m: header(m.xid + 1, MSG, chunks(REPLY)) + rpc_reply(m.xid + 1),
        "0 credits": lambda m: reply(m, credit=0),
        "another XID": lambda m: reply(m, rpc_reply(m.xid + 1)),
        "not an RPC reply": lambda m: reply(m, words(m.xid, REPLY, 7)),
        "carries no RPC reply": lambda m: reply(m, b""),
        "cannot be decoded": lambda m: reply(m)[:28],
        "is not an RPC-over-RDMA header": lambda m: b"\xff" * 15,
        "chunk lists are not those": lambda m: header(m.xid, MSG, chunks(REPLY, writes=[[segment(1, 0xffffffff)]]))
                                               + rpc_reply(m.xid),
        "in a reply chunk of 0": lambda m: header(m.xid, NOMSG, chunks(REPLY, reply=[segment(1, 0xffffffff)])),
        "takes 7 to 9": lambda m: header(m.xid, ERROR, words(ERR_VERS, 7, 9)),
        "RDMA2_ERR_SYSTEM": lambda m: header(m.xid, ERROR, words(10)),
        "no such program": lambda m: reply(m, rpc_reply(m.xid, status=1)),
        "versions 5 to 6": lambda m: reply(m, rpc_reply(m.xid, words(5, 6), status=2)),
        "without authentication (auth_stat 5)": lambda m: reply(m, words(m.xid, REPLY, 1, 1, 5)),
    }
    for reason, make in answers.items():
        def answer(connection, message, make=make):
            if (data := make(message)) is not None and message.proc == MSG:
                connection.send(data)

        with serving(answer) as server:
            status, _, error = rpcping(rig, server.port, "-c", "1", "-W", "0.3")
        equal(status, 1, f"exit status for {reason}")
        check(reason in error and error.startswith("dafsctl: 127.0.0.1:") and error.count("\n") == 1,
              f"{reason}: {error}")


class Client:
    """A connection to dafs_rpcrdma_responder, with calls one after the other."""

    def __init__(self, port):
        self.connection = Connection(port, private=b"")
        self.xid = 0x100

    def memory(self, handle, data):
        self.connection.regions[handle] = bytearray(data)

    def exchange(self, proc, body, payload=b"", **how):
        """Sends a message; returns the answer to it."""
        self.xid += 1
        self.connection.send(header(self.xid, proc, body, **how) + payload)
        while True:
            message = Message(self.connection.receive())
            if message.xid == self.xid:
                return message

    def call(self, procedure=0, arguments=b"", proc=MSG, **lists):
        message = rpc_call(self.xid + 1, PROGRAM, VERSION, procedure, arguments)
        return self.exchange(proc, chunks(**lists), message if proc == MSG else b"")


@contextlib.contextmanager
def responder(rig):
    process = subprocess.Popen([rig.bin / "dafs_rpcrdma_responder"], stdout=subprocess.PIPE, text=True)
    try:
        client = Client(int(process.stdout.readline().rpartition(":")[2]))
        yield client
        client.connection.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@scenario(timeout=60, where="server", loopback=True)
def rpcrdma_foreign_client(rig):
    """A foreign client moves arguments and results by chunks, and its window is invalidated.

    Shows RPCRDMA2-7.2-02, RPCRDMA2-7.2.3-03, RPCRDMA2-7.2.3-02, RPCRDMA2-8-07."""
    data = bytes((index * 13 + 5) % 256 for index in range(5001))
    with responder(rig) as client:
        reply = client.call()
        equal((reply.version, reply.proc, reply.direction, reply.credit), (2, MSG, REPLY, 8), "reply to NULL")
        equal(reply.payload, rpc_reply(reply.xid), "its RPC message")
        # The argument in a read chunk of two segments, the result in a write chunk of two.
        client.memory(0x11, data)
        client.memory(0x22, bytes(6000))
        at = Connection.BASE
        reads = [(44, segment(0x11, 3000, at)), (44, segment(0x11, 2001, at + 3000))]
        writes = [[segment(0x22, 2000, at), segment(0x22, 4000, at + 2000)]]
        for invalidate in (0, 0x22):
            reply = client.call(1, words(len(data)), reads=reads, writes=writes, invalidate=invalidate)
            equal(reply.proc, MSG, "the procedure of the reply")
            equal([one[1] for one in reply.writes[0]], [2000, 3001], "lengths of the write chunk")
            equal(reply.payload, rpc_reply(reply.xid, words(len(data))), "the reduced RPC message")
            equal(bytes(client.connection.regions[0x22][:5001]), data, "the result")
            equal(client.connection.invalidated, [0x22] if invalidate else [], "what was invalidated")
            client.memory(0x22, bytes(6000))
        # A call in a position-zero chunk, a reply in a reply chunk.
        call = rpc_call(client.xid + 1, PROGRAM, VERSION, 1, opaque(data))
        client.memory(0x33, call)
        client.memory(0x44, bytes(6000))
        reply = client.call(proc=NOMSG, reads=[(0, segment(0x33, len(call)))], reply=[segment(0x44, 6000)])
        equal((reply.proc, reply.payload), (NOMSG, b""), "a long reply")
        length = reply.reply[0][1]
        equal(bytes(client.connection.regions[0x44][:length]), rpc_reply(reply.xid, opaque(data)), "its message")


@scenario(timeout=60, where="server", loopback=True)
def rpcrdma_foreign_errors(rig):
    """A foreign client gets the error of the draft for each wrong header, and the connection stays.

    Shows RPCRDMA2-7.2.4-01, RPCRDMA2-7.2.4-02, RPCRDMA2-7.2.4-03, RPCRDMA2-7.2.4-04, RPCRDMA2-7.2.4-10,
    RPCRDMA2-7.2.4-11, RPCRDMA2-5.1-02, RPCRDMA2-6.3.2-02, RPCRDMA2-6.3.3-01."""
    with responder(rig) as client:
        client.call()

        def error(proc, body, payload=b"", **how):
            answer = client.exchange(proc, body, payload, **how)
            equal((answer.proc, answer.version), (ERROR, how.get("version", 2)), "the answer")
            return answer.error, answer.payload

        call = rpc_call(1, PROGRAM, VERSION, 0)
        equal(error(77, b""), (ERR_INVAL_PROC, b""), "unknown procedure")
        equal(error(MSG, chunks()[:-4]), (ERR_BAD_XDR, b""), "a header cut short")
        equal(error(MSG, words(CALL, 0, 0, 1, 0xffffffff)), (ERR_BAD_XDR, b""), "a chunk of 4 G segments")
        equal(error(MSG, chunks(REPLY | 2), call), (ERR_BAD_XDR, b""), "direction 3")
        equal(error(MSG, chunks()), (ERR_BAD_XDR, b""), "no RPC message")
        equal(error(MSG, chunks(reads=[(at, segment(1, 4)) for at in (4, 8, 12)]), call), (ERR_READ_CHUNKS, words(2)),
              "three read chunks")
        equal(error(MSG, chunks(writes=[[segment(1, 4)] * 9]), call), (ERR_SEGMENTS, words(8)), "nine segments")
        short = client.call(1, opaque(b"12345"), writes=[[segment(1, 4)]])
        equal((short.proc, short.error, short.payload), (ERROR, ERR_WRITE_RESOURCE, words(1, 5)), "a short chunk")
        equal(error(OPTIONAL, words(CALL, 1) + opaque(properties([]))), (ERR_INVAL_OPTION, b""), "an option")
        equal(error(MSG, chunks(), call, version=3), (ERR_VERS, words(1, 2)), "version 3")
        answer = client.exchange(REQPROP, properties([(RECEIVE_SIZE, words(8192)), (4711, b"")]))
        equal((answer.proc, answer.done, answer.rejected, answer.values), (RESPROP, [1], [2], []), "a request")
        equal(client.call().proc, MSG, "a call after all these")
        with contextlib.suppress(struct.error):
            client.connection.send(b"\x01\x02\x03")
            equal(client.connection.ended(), None, "how the connection ends after 3 bytes")
