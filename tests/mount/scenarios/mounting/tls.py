"""TLS: encrypted mounts, accepted and refused certificates, and the messages of a refusal."""

import contextlib
import json
import os
import signal
import socket
import threading

import processes
from rig import check, equal, scenario
from scenarios.operators.control import ask
from .mounting import refused


class Authority:
    """A certificate authority in a temporary folder, by openssl(1)."""

    def __init__(self, rig, name="ca"):
        rig.need("openssl")
        self.rig = rig
        self.folder = rig.base / name
        self.folder.mkdir()
        self.ca = self.folder / "ca.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.pem")

    def openssl(self, *words):
        self.rig.run(["openssl", *words], cwd=self.folder)

    def issue(self, file, names, days=1):
        """Writes FILE.pem and FILE.key; returns their paths. With negative `days` it has expired."""
        key, request, certificate = (self.folder / f"{file}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.folder / f"{file}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={file}",
                     "-keyout", key, "-out", request)
        os.chmod(key, 0o600)
        self.openssl("x509", "-req", "-in", request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                     "-extfile", extensions, "-days", str(days), "-out", certificate)
        return certificate, key


def tls_arguments(authority, names="IP:127.0.0.1"):
    certificate, key = authority.issue("server", names)
    return ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authority.ca]


class Recorder(threading.Thread):
    """Relays connections to a server and keeps what passes."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.server_port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = bytearray()
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:  # it is down
                client.close()
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.relay, args=(source, sink), daemon=True).start()

    def relay(self, source, sink):
        try:
            while data := source.recv(65536):
                self.seen += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # a killed server resets its connections: the other side must see that, too
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@scenario(timeout=120, where="server", loopback=True)
def tls_mount(rig):
    """A mount with xprtsec=tls reads and writes, a relay sees no plaintext, and it survives a killed server."""
    rig.expect("session", "TLS")
    authority = Authority(rig)
    server = rig.serve([f"/data={rig.export},rw,no_root_squash,xprtsec=tls:mtls"], tls_arguments(authority))
    recorder = Recorder(server.port)
    secret = b"a text that must not be seen on the way"
    (rig.export / "given").write_bytes(secret * 5000)
    point = rig.base / "mnt"
    relayed = f"{rig.address}:{recorder.port}:/data"
    rig.run(rig.mount_command(relayed, point, f"xprtsec=tls,tlsca={authority.ca}"), cwd="/")
    rig.mounted[point] = None
    equal((point / "given").read_bytes(), secret * 5000, "the file that the server had")
    (point / "written-by-name").write_bytes(secret * 7000)
    equal((rig.export / "written-by-name").read_bytes(), secret * 7000, "the file that the mount wrote")
    check(len(recorder.seen) > 12000 * len(secret), f"only {len(recorder.seen)} bytes passed the relay")
    for text in (secret[:16], b"written-by-name"):
        check(text not in recorder.seen, f"{text} passed the relay in the clear")

    status, text = ask(rig, "status", "--json", point)
    equal(status, 0, f"exit status of dafsctl status ({text})")
    check("TLSv1.3 TLS_AES_128_GCM_SHA256 by OpenSSL" in text, f"the transport: {text}")

    server.stop(signal.SIGKILL)
    server.start()
    (point / "after").write_text("the restart")
    equal((rig.export / "after").read_text(), "the restart", "a file written after the restart")
    rig.umount(point)
    recorder.close()


@scenario(timeout=120, where="server", loopback=True)
def tls_identities(rig):
    """xprtsec= and certs= of exports decide which clients may mount; each refusal names its remedy."""
    rig.expect("refused", "session", "tls")
    authority = Authority(rig)
    exports = []
    for name, options in (("plain", "xprtsec=none"), ("tls", "xprtsec=tls"), ("any", "xprtsec=mtls"),
                          ("named", "certs=*.good.example")):
        folder = rig.base / f"export-{name}"
        folder.mkdir()
        exports.append(f"/{name}={folder},rw,no_root_squash,{options}")
    server = rig.serve(exports, tls_arguments(authority))
    good, bad = authority.issue("good", "DNS:host.good.example"), authority.issue("bad", "DNS:host.bad.example")
    tls = f"xprtsec=tls,tlsca={authority.ca}"

    def mutual(files):
        return f"xprtsec=mtls,tlsca={authority.ca},tlscert={files[0]},tlskey={files[1]}"

    def source(name):
        return f"{rig.address}:{server.port}:/{name}"

    for name, options in (("plain", ""), ("tls", tls), ("tls", mutual(bad)), ("any", mutual(bad)),
                          ("named", mutual(good))):
        rig.mount(server, options, export=f"/{name}")
        rig.umount()
    for name, options, here, there in (
            ("tls", "", "mount with xprtsec=tls", "takes only connections with TLS"),
            ("plain", tls, "without TLS (xprtsec=none)", "takes only connections without TLS"),
            ("any", tls, "mount with xprtsec=mtls", "takes only clients with a certificate"),
            # Its own name: the former one belongs to the owner of the good certificate until its lease ends.
            ("named", mutual(bad) + ",clientid=bad", "no such export", "certificate for host.bad.example; add it")):
        status, line = refused(rig, source(name), options)
        equal(status, 32 if name == "named" else 1, f"exit status for {name} with {options}")
        check(here in line, f"the message for {name} with {options}: {line}")
        check(processes.wait_until(lambda there=there: there in server.log.read_text(), 20),
              f"no {there!r} in the log")

    status, text = ask(rig, "ping", "-c", "1", "--xprtsec", "tls", "--tls-ca", authority.ca,
                       f"{rig.address}:{server.port}")
    check(status == 0 and "TLSv1.3" in text, f"ping by TLS: {text}")
    status, text = ask(rig, "server", "exports", "--json", "--socket", server.socket)
    equal(status, 0, f"exit status of dafsctl server exports ({text})")
    found = {row["name"]: (row["xprtsec"], row["certs"]) for row in json.loads(text)["exports"]}
    equal(found["/named"], ("mtls", ["*.good.example"]), "the export in the report")


@scenario(timeout=120, where="server", loopback=True)
def tls_refusals(rig):
    """Bad certificates and servers without TLS: exit status 32 and a message with the remedy, and a line in the log."""
    rig.expect("refused", "TLS", "session", "tls")
    authority, other = Authority(rig), Authority(rig, "other")
    certificate, key = authority.issue("server", "DNS:elsewhere.example")
    arguments = ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authority.ca]
    server = rig.serve(arguments=arguments)
    here = f"{rig.address}:{server.port}:/data"

    def expect_refusal(options, *words, status=32, source=here):
        found, line = refused(rig, source, options)
        equal(found, status, f"exit status ({line})")
        for word in words:
            check(word in line, f"{word!r} is missing: {line}")

    def reload():
        before = server.log.read_text().count("certificates were read again")
        server.process.send_signal(signal.SIGHUP)
        check(processes.wait_until(
            lambda: server.log.read_text().count("certificates were read again") > before, 20), "no reload")

    tls = f"xprtsec=tls,tlsca={authority.ca}"
    expect_refusal(tls, "TLS: the certificate of the server is for elsewhere.example, not for 127.0.0.1")
    check(processes.wait_until(lambda: "TLS: the client refuses the certificate" in server.log.read_text(), 20),
          "nothing in the log of the server")
    expect_refusal(f"xprtsec=tls,tlsca={other.ca}", "is not signed by a CA of", "tlsca=")
    expect_refusal("xprtsec=tls", "is not signed by a CA of the CAs of this system")

    authority.issue("server", "IP:127.0.0.1", days=-1)
    reload()
    expect_refusal(tls, "TLS: the certificate of the server has expired; renew it")
    authority.issue("server", "IP:127.0.0.1")
    reload()
    rig.mount(server, tls)  # the new certificate is in use
    rig.umount()

    foreign = other.issue("client", "DNS:client.example")
    expect_refusal(f"xprtsec=mtls,tlsca={authority.ca},tlscert={foreign[0]},tlskey={foreign[1]}",
                   "TLS: the server refuses the certificate of this client", "--tls-ca")
    mine = authority.issue("client", "DNS:client.example")
    os.chmod(mine[1], 0o644)
    expect_refusal(f"xprtsec=mtls,tlsca={authority.ca},tlscert={mine[0]},tlskey={mine[1]}",
                   "other users may access it; run chmod 600", status=1)
    expect_refusal(f"xprtsec=mtls,tlsca={authority.ca}", "needs tlscert= and tlskey=", status=1)

    audit = rig.base / "audit.json"
    plain = rig.serve(arguments=["--audit", audit])
    expect_refusal(tls, "TLS: the server refuses TLS; start dafsd with --tls-cert and --tls-key",
                   source=f"{rig.address}:{plain.port}:/data")
    check(processes.wait_until(lambda: any(
        json.loads(line)["op"] == "TLS_REFUSED" and "no certificate" in json.loads(line)["reason"]
        for line in audit.read_text().splitlines()), 20), f"no record: {audit.read_text()}")
    check("this server has no certificate" in plain.log.read_text(), "nothing in the log of the plain server")

    os.chmod(key, 0o644)  # a failed reload keeps what was read before
    before = server.log.read_text().count("stay in use")
    server.process.send_signal(signal.SIGHUP)
    check(processes.wait_until(lambda: server.log.read_text().count("stay in use") > before, 20), "no message")
    rig.mount(server, tls)
