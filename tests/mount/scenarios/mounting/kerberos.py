"""Kerberos: mounts of a machine that proves itself by its keys, with a realm on loopback."""

import contextlib
import errno
import functools
import itertools
import os
import re
import signal
import socket
import subprocess
import time

import processes
import proxy
from changes import Load
from rig import SOURCE, acting_as, check, equal, errno_of, free_port, listening, scenario
from scenarios.recovery.failures import check_loads, mount_through
from .mounting import refused
from .tls import Authority, tls_arguments

MACHINE = "host/client.test@DAFS.TEST"
NOBODY = 65534


@contextlib.contextmanager
def realm(rig):
    """The realm of tests/realm; returns its folder. Programs find it by the environment."""
    rig.need("krb5kdc", "kdb5_util", "kadmin.local")
    folder, port = rig.base / "realm", free_port()
    folder.mkdir()
    with open(rig.logs / "realm.log", "wb") as log, subprocess.Popen(
            [SOURCE / "tests" / "realm", folder, str(port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/") as kdc:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(folder / "krb5.conf")
        try:
            check(processes.wait_until(lambda: (folder / "ready").exists() and listening(port), 60), "no realm")
            yield folder
        finally:
            kdc.terminate()
            if before is None:
                del os.environ["KRB5_CONFIG"]
            else:
                os.environ["KRB5_CONFIG"] = before


def by_keys(folder, name="client"):
    return f"sec=krb5host,keytab={folder}/{name}.keytab"


@scenario(timeout=180, where="server", loopback=True)
def kerberos_mount(rig):
    """A machine that proves itself acts for its users, also over TLS and after a killed server; others are refused."""
    rig.expect("refused", "session", "Kerberos", "TLS")
    with realm(rig) as folder:
        authority = Authority(rig)
        exports = [f"/data={rig.export},rw,no_root_squash,sec=krb5,principals={MACHINE}",
                   f"/others={rig.local},sec=krb5,principals=host/other.test@DAFS.TEST"]
        for name, options in (("plain", "sec=sys"), ("private", "sec=krb5p")):
            (rig.base / name).mkdir()
            exports.append(f"/{name}={rig.base / name},rw,no_root_squash,{options}")
        server = rig.serve(exports, ["--keytab", folder / "server.keytab", "--trusted", MACHINE,
                                     *tls_arguments(authority)])
        point = rig.mount(server, by_keys(folder))
        os.chmod(rig.export, 0o777)
        (point / "of-root").write_text("root")
        with acting_as(NOBODY):
            (point / "of-nobody").write_text("nobody")
        owners = [(rig.export / name).stat().st_uid for name in ("of-root", "of-nobody")]
        equal(owners, [0, NOBODY], "owners of the files")
        check(f"connected as {MACHINE}" in server.log.read_text(), "no principal in the log")

        # Another process has the file open: this one would close it in the child that becomes the server.
        with subprocess.Popen(["sh", "-c", "exec 3>open; printf 'before;' >&3; echo; read line; printf after >&3"],
                              cwd=point, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            server.stop(signal.SIGKILL)
            server.start()
            holder.communicate(b"\n", timeout=60)
        equal((rig.export / "open").read_text(), "before;after", "a file that was open over the restart")
        rig.umount(point)

        rig.mount(server, f"{by_keys(folder)},xprtsec=tls,tlsca={authority.ca}", export="/private")
        (rig.mnt / "private").write_text("x" * 100000)
        rig.umount()

        # An export of another principal is neither listed nor found.
        point = rig.mount(server, by_keys(folder), export="/")
        equal(os.listdir(point), ["data"], "exports of this principal")
        equal(errno_of(os.stat, point / "others"), errno.ENOENT, "an export of another principal")
        equal(errno_of(os.stat, point / "plain"), errno.EACCES, "an export that takes another sec=")
        rig.umount(point)

        for export, options, here, there in (
                ("others", by_keys(folder), "no such export", f"principal {MACHINE}"),
                ("data", "", "Kerberos (sec=krb5host)", "sec=krb5host"),
                ("plain", by_keys(folder), "sec=", "sec=sys"),
                ("private", by_keys(folder), "xprtsec=tls", "takes only connections with TLS"),
                ("data", by_keys(folder, "other"), "refuses this principal", "--trusted"),
                ("data", by_keys(folder, "none"), "none.keytab", ""),
                ("data", f"{by_keys(folder)},principal=host/else.test@DAFS.TEST", "Kerberos:", "")):
            _, line = refused(rig, f"{rig.address}:{server.port}:/{export}", options)
            check(here in line, f"the message for /{export} with {options}: {line}")
            check(processes.wait_until(lambda there=there: there in server.log.read_text(), 20),
                  f"no {there!r} in the log")


@scenario(timeout=120, where="server", long_only=True, loopback=True)
def kerberos_renewal(rig):
    """A mount renews tickets of 6 seconds while it writes, and no operation fails."""
    rig.expect("session", "Kerberos")
    with realm(rig) as folder:
        server = rig.serve([f"/data={rig.export},rw,no_root_squash,sec=krb5"],
                           ["--keytab", folder / "server.keytab", "--trusted", "host/*.test@DAFS.TEST"])
        point = rig.mount(server, by_keys(folder, "brief"))
        end, count = time.monotonic() + 11, 0
        while time.monotonic() < end:
            (point / str(count % 50)).write_text(str(count))
            count += 1
            time.sleep(0.01)
        check(count > 100, f"only {count} files were written")
        text = server.log.read_text()
        equal(text.count("connected as host/brief.test"), text.count("connected as"), "principals")
        check("NOT_AUTHENTICATED" not in text and "expired" not in text, text[-2000:])
        rig.umount(point)


@scenario(timeout=120, where="server", long_only=True, loopback=True)
def kerberos_silent(rig):
    """A key distribution centre that does not answer holds mount.dafs no longer than an attempt to connect: it ends with
    its reason, not by the alarm that ends a mount with a hung thread."""
    rig.expect("session", "Kerberos")
    with realm(rig) as folder, socket.create_server(("127.0.0.1", 0)) as silent:
        server = rig.serve([f"/data={rig.export},rw,sec=krb5"],
                           ["--keytab", folder / "server.keytab", "--trusted", MACHINE])
        conf = folder / "silent.conf"
        conf.write_text(re.sub("kdc = .*", f"kdc = 127.0.0.1:{silent.getsockname()[1]}",
                               (folder / "krb5.conf").read_text()))
        command = rig.mount_command(f"{rig.address}:{server.port}:/data", rig.mnt, by_keys(folder))
        text = rig.run(["env", f"KRB5_CONFIG={conf}", *command, "-f"], cwd="/", timeout=60, status=32)
        check("is a KDC reachable?" in text, text)


def _cut_and_kill(rig, relay, server, seeds):
    """Runs loads of changes under breaks of the connections and of the server, and checks them."""

    def load(breaks):
        """Runs a load until `breaks` has returned and it has ended."""
        seed = next(seeds)
        one = Load(str(rig.mnt / f"load{seed}"), seed=seed).start(count=40)
        breaks()
        check_loads([one], rig.export, 60 * rig.slowness, stop=False)

    def cut(direction, what, *places):
        for segments in places:
            broken = relay.broken
            relay.break_after(direction, segments, what)
            check(processes.wait_until(lambda: relay.broken > broken, 60 * rig.slowness), f"no segment {segments}")

    def kill():
        time.sleep(0.05)
        server.stop(signal.SIGKILL)
        server.start()

    for direction, what, first in itertools.product((proxy.TO_SERVER, proxy.TO_CLIENT), (proxy.CUT, proxy.RESET), (3, 20)):
        for second in range(1, 9):  # of the connections that replace the first ones
            load(functools.partial(cut, direction, what, first, second))
    for _ in range(5):
        load(kill)


@scenario(timeout=600, where="server", long_only=True, loopback=True)
def kerberos_recovery(rig):
    """Connections cut at their first segments, those of the tokens among them, and killed servers, without and with TLS:
    each change is made once, and no program sees an error."""
    rig.expect("session", "not connected", "Kerberos", "TLS")
    seeds = itertools.count()
    with realm(rig) as folder:
        authority = Authority(rig)
        server = rig.serve([f"/data={rig.export},rw,no_root_squash,sec=krb5"],
                           ["--keytab", folder / "server.keytab", "--trusted", MACHINE, *tls_arguments(authority)])
        for more in ("", f",xprtsec=tls,tlsca={authority.ca}"):
            with proxy.Proxy(server.port) as relay:
                mount_through(rig, relay, server, by_keys(folder) + more)
                _cut_and_kill(rig, relay, server, seeds)
                rig.umount()
        text = server.log.read_text()
        equal(text.count(f"connected as {MACHINE}"), text.count("connected as"), "principals")
