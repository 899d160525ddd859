"""Mounts of DAFS names: found in a file, by DNS (dnsmasq) and by LDAP (slapd), each on loopback."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time

import processes
from rig import SOURCE, check, equal, free_port, listening, scenario
from scenarios.recovery.paths import status
from scenarios.recovery.restarting import kill_program, restart
from .mounting import Helper, refused

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")  # of one server
BASE = "ou=dafs,o=test"


def serve(rig):
    port = free_port()
    return rig.serve(arguments=[word for address in ADDRESSES[1:] for word in ("--listen", f"tcp:{address}:{port}")],
                     port=port)


def write_conf(rig, *lines):
    """Returns the mount option that names the file."""
    conf = rig.base / "names.conf"
    conf.write_text("".join(f"{line}\n" for line in ("timeout = 1", "refresh = 1", *lines)))
    return f"names={conf}"


def answers(rig, name, exit_status=0):
    """The answers of the services: {service: answer}."""
    text = rig.run([rig.bin / "dafsctl", "names", "--json", "--conf", rig.base / "names.conf", name], cwd="/",
                   status=exit_status, merge=False)
    if exit_status is None:
        text = text[1]
    return {answer["service"]: answer for answer in json.loads(text)["services"]}


def states(rig):
    """The paths of the mount: {address: state}."""
    return {path["address"]: path["state"] for path in status(rig)["paths"]}


def await_paths(rig, *expected):
    """Waits until these are the addresses of the mount. Sessions may still use others."""
    found = []

    def as_expected():
        found[:] = sorted(address for address, state in states(rig).items() if state != "not listed")
        return found == sorted(expected)

    check(processes.wait_until(as_expected, 20 * rig.slowness, 0.02), f"paths: {found}")


def log_of(rig):
    return (rig.logs / "mount.dafs.log").read_text()


def await_log(rig, text):
    check(processes.wait_until(lambda: text in log_of(rig), 20 * rig.slowness, 0.02), f"no {text!r} in the log")


def check_still_served(rig):
    """The mount goes on by its first session."""
    (rig.mnt / "file").write_text("again")
    equal((rig.export / "file").read_text(), "again", "a file at the server")
    equal([worker["connects"] for worker in status(rig)["workers"][:-1]], [1], "sessions of the worker so far")


@scenario(timeout=60, where="server", loopback=True)
def names_file(rig):
    """A name of a file is mounted at the first location that answers. The mount follows changes of the file without a new
    session, and keeps its addresses while the file is wrong.
    Shows DAFS-2.4.2-01, DAFS-A.1-01, DAFS-A.5-01, DAFS-A.5-04, DAFS-A.5-07, DAFS-A.6-01."""
    rig.expect("not looked up again", "new session", "session with .* lost")
    server, names = serve(rig), rig.base / "names"
    at = [f"{address}:{server.port}" for address in ADDRESSES]
    names.write_text(f"# two places\nprojects 127.0.0.1:{free_port()}:/other {at[0]}:/data {at[1]}:/data\n")
    option = write_conf(rig, "order = file", f"file = {names}")
    rig.mount(None, option, source="projects")
    with open("/proc/mounts", encoding="ascii") as table:
        check(f"projects {rig.mnt} fuse.dafs" in table.read(), "the source of the mount is not the name")
    (rig.mnt / "file").write_text("once")
    await_paths(rig, at[0], at[1])
    equal(len(answers(rig, "projects")["file"]["locations"]), 3, "locations")

    names.write_text(f"projects {at[1]}:/data {at[2]}:/data\n")
    await_paths(rig, at[1], at[2])
    equal(states(rig)[at[0]], "not listed", "state of the address that is in use")
    check_still_served(rig)

    names.write_text("projects\n")
    await_log(rig, f"{names}, line 1: no location")
    names.write_text(f"projects {at[0]}:/data {at[1]}:/data\n")
    await_log(rig, "found again by file")
    await_paths(rig, at[0], at[1])
    check_still_served(rig)
    rig.umount()


@scenario(timeout=60, where="server", loopback=True)
def names_refused(rig):
    """A name that cannot be mounted: the message has the service, the name and what to do."""
    rig.expect(".*")
    names = rig.base / "names"
    option = write_conf(rig, "order = file dns", f"file = {names}", f"dns-servers = 127.0.0.1:{free_port()}")
    for text, options, exit_status, words in (
            ("", option, 32, ["nothing: the DAFS name was not found", "file: ", "dns: ", "dafsctl names", "SERVER:/EXPORT"]),
            ("other h:/x h:/../y\n", option, 32, [f"{names}, line 1: h:/../y: the path must not contain '.' or '..'"]),
            ("nothing rdma://127.0.0.1/x\n", f"{option},proto=tcp", 32, ["no location that this mount can use", "RDMA"]),
            (f"nothing 127.0.0.1:{free_port()}:/a 127.0.0.1:{free_port()}:/b\n", option, 32, ["nothing (127.0.0.1:", "refused"]),
            ("", f"{option},port=7", 1, ["port=", "DAFS name"]),
            ("", "names=/nonexistent", 1, ["/nonexistent"])):
        names.write_text(text)
        found, line = refused(rig, "nothing", options)
        equal(found, exit_status, f"exit status with {text!r} and {options}")
        for word in words:
            check(word in line, f"no {word!r} in {line!r}")
    (rig.base / "names.conf").write_text("order = nis\n")
    _, line = refused(rig, "nothing", option)
    check("names.conf, line 1: order = nis: expected file, dns and ldap" in line, line)


@scenario(timeout=60, where="server", loopback=True)
def names_other_cluster(rig):
    """A location that leads to a server of another cluster is logged and not used."""
    rig.expect("leads to server", "not looked up again")
    names = rig.base / "names"
    server = rig.serve()
    other = rig.serve([f"/data={rig.local},rw"], ["--cluster-id", "of-others"])
    here, there = (f"127.0.0.1:{one.port}" for one in (server, other))
    names.write_text(f"projects {here}:/data\n")
    rig.mount(None, write_conf(rig, "order = file", f"file = {names}"), source="projects")
    (rig.mnt / "file").write_text("once")
    names.write_text(f"projects {there}:/data {here}:/data\n")
    await_paths(rig, here, there)
    server.stop(signal.SIGKILL)
    await_log(rig, "of cluster of-others, not to server")
    equal(states(rig)[there], "another server", "state of the address")
    server.start()
    (rig.mnt / "file").write_text("again")
    equal((rig.export / "file").read_text(), "again", "a file at the server")
    rig.umount()


@scenario(timeout=60, where="server", loopback=True)
def names_fstab(rig):
    """A name in an fstab, by mount(8)."""
    server, names, table = serve(rig), rig.base / "names", rig.local / "fstab"
    (rig.export / "hello").write_text("by name")
    names.write_text(f"projects 127.0.0.1:{server.port}:/data\n")
    option = write_conf(rig, "order = file", f"file = {names}")
    table.write_text(f"projects {rig.mnt} dafs _netdev,nofail,{option} 0 0\n")
    with Helper(rig):
        for _ in (1, 2):  # the second time it is mounted already
            rig.run(["mount", "-a", "-T", table], cwd="/")
    equal((rig.mnt / "hello").read_text(), "by name", "a file")
    rig.run(["umount", rig.mnt], cwd="/")


@scenario(timeout=60, where="server", loopback=True)
def names_restarted(rig):
    """A new program continues the mount of a name at its place, after dafsctl restart and after a kill, and follows the
    name further."""
    rig.expect(".*")
    server, names = serve(rig), rig.base / "names"
    at = [f"{address}:{server.port}" for address in ADDRESSES]
    (rig.export / "below").mkdir()
    names.write_text(f"projects {at[0]}:/data/below\n")
    rig.mount(None, f"guardian,{write_conf(rig, 'order = file', f'file = {names}')}", source="projects")
    with open(rig.mnt / "file", "w", encoding="ascii") as file:
        for address, restart_it in ((at[1], restart), (at[2], kill_program)):
            restart_it(rig)
            names.write_text(f"projects {address}:/data/below\n")
            await_paths(rig, address)
            file.write("again")
            file.flush()
    equal((rig.export / "below" / "file").read_text(), "againagain", "a file at the server")
    rig.umount()


@contextlib.contextmanager
def running(rig, command, port):
    """A daemon that listens on `port`; yields its process."""
    with open(rig.logs / "name-service.log", "ab") as log, subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/") as process:
        try:
            check(processes.wait_until(lambda: listening(port), 20 * rig.slowness), f"no {command[0]}")
            yield process
        finally:
            process.terminate()


def dnsmasq(rig, port, targets, path="/data"):
    """`targets`: [(address, port)], the preferred one first."""
    records = [f"--txt-record=_dafs._tcp.projects.test,path={path},version=1.0"]
    for number, (address, server_port) in enumerate(targets):
        records += [f"--srv-host=_dafs._tcp.projects.test,files{number}.test,{server_port},{number}",
                    f"--host-record=files{number}.test,{address}"]
    return dnsmasq_with(rig, port, records)


def dnsmasq_with(rig, port, records):
    command = ["dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", f"--port={port}",
               "--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file=", "--user=root", "--local=/test/", "--log-queries"]
    return running(rig, command + records, port)


@scenario(timeout=60, where="server", loopback=True)
def names_dns(rig):
    """A name of DNS: SRV and TXT records of dnsmasq. The mount keeps its addresses while dnsmasq is away, logs that once,
    and takes the new ones once it is back.
    dnsmasq has two host names of one server, and the mount sends dnsmasq no query for a PTR record.
    Shows DAFS-2.4.2-02, DAFS-A.1-01, DAFS-A.1-03, DAFS-A.4.1-03, DAFS-A.5-04, DAFS-A.5-06, DAFS-C-06."""
    rig.need("dnsmasq")
    rig.expect("not looked up again")
    server, port = serve(rig), free_port()
    at = [f"{address}:{server.port}" for address in ADDRESSES]
    option = write_conf(rig, "order = file dns", f"file = {rig.base}/none", "dns-domain = test",
                        f"dns-servers = 127.0.0.1:{port}")
    with dnsmasq(rig, port, [(ADDRESSES[0], server.port), (ADDRESSES[1], server.port)]):
        rig.mount(None, option, source="projects")
        (rig.mnt / "file").write_text("once")
        await_paths(rig, at[0], at[1])
        found = answers(rig, "projects.test")
        equal([found["file"]["result"], found["dns"]["result"]], ["unknown", "found"], "answers")
        equal([one["host"] for one in found["dns"]["locations"]], ["files0.test", "files1.test"], "hosts")
        equal(answers(rig, "absent", None)["dns"]["result"], "unknown", "answer for another name")
    await_log(rig, "projects: not looked up again: dns")
    equal(answers(rig, "projects", None)["dns"]["result"], "away", "answer of a server that is gone")
    check_still_served(rig)
    await_paths(rig, at[0], at[1])
    with dnsmasq(rig, port, [(ADDRESSES[2], server.port)]):
        await_log(rig, "found again by dns")
        await_paths(rig, at[2])
        check_still_served(rig)
    equal(log_of(rig).count("not looked up again"), 1, "log lines about it")
    rig.umount()
    queries = (rig.logs / "name-service.log").read_text()
    check("query[SRV] _dafs._tcp.projects.test" in queries, "dnsmasq logs no queries")
    check("query[PTR]" not in queries, "an address was looked up")
    with dnsmasq(rig, port, [(ADDRESSES[0], server.port + i % 2) for i in range(65)]):
        found = answers(rig, "projects", None)["dns"]
        equal([found["result"], "more than 64 records" in found["message"]], ["bad", True], f"answer of 65: {found}")


@scenario(timeout=60, where="server", loopback=True)
def names_kept(rig):
    """DNS gives two locations, then ends. The server returns at the one that the mount did not use: the mount goes on there.
    Shows DAFS-A.5-03."""
    rig.need("dnsmasq")
    rig.expect("session with .* lost", "not looked up again", "not connected", "no session for", "new session",
               "still waiting")
    server, port = serve(rig), free_port()
    at = [f"{address}:{server.port}" for address in ADDRESSES[:2]]
    option = write_conf(rig, "order = dns", "dns-domain = test", f"dns-servers = 127.0.0.1:{port}")
    with dnsmasq(rig, port, [(address, server.port) for address in ADDRESSES[:2]]):
        rig.mount(None, option, source="projects")
        (rig.mnt / "file").write_text("once")
        await_paths(rig, *at)
        equal(status(rig)["workers"][0]["session"]["peer"], at[0], "the location in use")
    await_log(rig, "projects: not looked up again: dns")
    server.stop(signal.SIGKILL)
    server.address, server.arguments = ADDRESSES[1], []
    server.start()
    (rig.mnt / "file").write_text("again")
    equal((rig.export / "file").read_text(), "again", "a file at the server")
    equal(status(rig)["workers"][0]["session"]["peer"], at[1], "the location in use")
    rig.umount()


def location(number, host, port, path="/data", transport="IWARP"):
    return (f"dn: cn={number},dafsName=projects,{BASE}\nobjectClass: dafsLocation\nobjectClass: datLocation\n"
            f"cn: {number}\ndatTransportType: {transport}\ndatTransportHostname: {host}\n"
            f"datTransportConnectionQualifier: {port}\ndatTransportAttributes: virtual server {number}\n"
            f"dafsDirectoryPath: {path}\ndafsProtocolVersion: 1.0\n\n")


def slapd(rig, port, locations):
    """An LDAP server with the name and these locations."""
    return slapd_with(rig, port, f"dn: dafsName=projects,{BASE}\nobjectClass: dafsNameSpaceEntry\ndafsName: projects\n\n"
                      + "".join(locations))


def slapd_with(rig, port, below):
    """An LDAP server of the schema in share/ldap. `below`: LDIF of the entries below BASE."""
    folder = rig.base / f"ldap-{time.monotonic_ns()}"
    folder.mkdir()
    conf, entries = folder / "slapd.conf", folder / "entries.ldif"
    conf.write_text("include /etc/ldap/schema/core.schema\n"
                    f"include {SOURCE}/share/ldap/dafs.schema\n"
                    "modulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nmaxsize 10485760\n"
                    f"suffix o=test\ndirectory {folder}\ndbnosync\n")
    entries.write_text("dn: o=test\nobjectClass: organization\no: test\n\n"
                       f"dn: {BASE}\nobjectClass: organizationalUnit\nou: dafs\n\n" + below)
    rig.run(["slapadd", "-q", "-f", conf, "-l", entries], cwd="/")
    return running(rig, ["slapd", "-d", "0", "-h", f"ldap://127.0.0.1:{port}", "-f", conf], port)


@scenario(timeout=60, where="server", loopback=True)
def names_ldap(rig):
    """A name of LDAP, in the schema of share/ldap. Locations of transports that the mount does not have are not used.
    While slapd is away, the mount keeps its addresses.
    Shows DAFS-A.1-01, DAFS-A.4-01, DAFS-A.4.1-01, DAFS-A.4.1-02, DAFS-A.4.1-04, DAFS-A.5-04, DAFS-A.7-01, DAFS-A.7-02, DAFS-A.7-03."""
    os.environ["PATH"] += ":/usr/sbin"
    rig.need("slapd", "slapadd")
    rig.expect("not looked up again")
    server, port = serve(rig), free_port()
    at = [f"{address}:{server.port}" for address in ADDRESSES]
    option = write_conf(rig, "order = ldap", f"ldap-uri = ldap://127.0.0.1:{port}", f"ldap-base = {BASE}")
    with slapd(rig, port, [location(1, "server28", "4:dafs", transport="VI"),
                           location(2, ADDRESSES[0], server.port), location(3, ADDRESSES[1], server.port)]):
        rig.mount(None, option, source="projects")
        (rig.mnt / "file").write_text("once")
        await_paths(rig, at[0], at[1])
        check("locations that are not used: server28:/data: this mount cannot use transport VI" in log_of(rig), "it is not logged")
        equal([one["transport"] for one in answers(rig, "projects")["ldap"]["locations"]], ["VI", "IWARP", "IWARP"],
              "transports")
        equal(answers(rig, "proj*", None)["ldap"]["result"], "unknown", "answer for a name with a wildcard")
    await_log(rig, "not looked up again: ldap")
    check_still_served(rig)
    await_paths(rig, at[0], at[1])
    with slapd(rig, port, [location(1, ADDRESSES[2], server.port)]):
        await_log(rig, "found again by ldap")
        await_paths(rig, at[2])
        check_still_served(rig)
    rig.umount()


@scenario(timeout=90, where="server", loopback=True)
def names_recorded(rig):
    """What dafsctl server records prints leads to the server, which listens on two ports: an administrator enters it into
    the file of names, slapd and dnsmasq. The server has one version of the protocol.
    Shows DAFS-A.1-02, DAFS-A.4.3-01, DAFS-A.5-05."""
    os.environ["PATH"] += ":/usr/sbin"
    rig.need("dnsmasq", "slapd", "slapadd")
    more, port = free_port(), free_port()
    server = rig.serve(arguments=["--listen", f"tcp:127.0.0.1:{more}"])
    at = [f"127.0.0.1:{server.port}", f"127.0.0.1:{more}"]

    def records(name, *options, exit_status=0):
        return rig.run([rig.bin / "dafsctl", "server", "records", "--socket", server.socket, *options, name, "/data"],
                       cwd="/", status=exit_status, merge=exit_status != 0)

    def check_mounts(service, *lines):
        rig.mount(None, write_conf(rig, f"order = {service}", *lines), source="projects")
        (rig.mnt / "file").write_text(service)
        equal((rig.export / "file").read_text(), service, "a file at the server")
        await_paths(rig, *at)
        found = answers(rig, "projects")[service]["locations"]
        equal([one["port"] for one in found], [server.port, more], f"ports of {service}")
        rig.umount()

    names = rig.base / "names"
    names.write_text(records("projects"))
    check_mounts("file", f"file = {names}")

    with slapd_with(rig, port, records("projects", "--ldif", "--base", BASE)):
        check_mounts("ldap", f"ldap-uri = ldap://127.0.0.1:{port}", f"ldap-base = {BASE}")

    check("give --host" in records("projects.test", "--dns", exit_status=1), "DNS without a host name")
    dns = ["--host-record=files.test,127.0.0.1"]
    for line in records("projects.test", "--dns", "--host", "files.test").splitlines():
        owner, kind, *words = shlex.split(line)
        owner = owner.rstrip(".")
        if kind == "SRV":
            priority, weight, at_port, host = words
            dns.append(f"--srv-host={owner},{host.rstrip('.')},{at_port},{priority},{weight}")
        else:
            dns.append(f"--txt-record={owner},{','.join(words)}")
    with dnsmasq_with(rig, port, dns):
        check_mounts("dns", "dns-domain = test", f"dns-servers = 127.0.0.1:{port}")
        equal([one["version"] for one in answers(rig, "projects")["dns"]["locations"]], ["1.0", "1.0"], "versions")

    found = json.loads(records("projects", "--json"))["locations"]
    equal([(one["transport"], one["host"], one["port"], one["path"]) for one in found],
          [("IWARP", "127.0.0.1", number, "/data") for number in (server.port, more)], "locations")
    text = rig.run([rig.bin / "dafsctl", "server", "records", "--socket", server.socket, "projects", "/other"], cwd="/",
                   status=1)
    check("does not export /other; its exports: /data" in text, text)
