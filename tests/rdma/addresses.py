"""The transport that `auto` selects for each name and address, as reported by `dafsctl ping`."""

import pathlib
import subprocess

import serving

HOST = "dafs-rdma-test.example"
IPV6 = "fd77::1"


def ping(programs, server, proto="auto"):
    """Returns the first line that dafsctl ping prints: "PEER: TRANSPORT"."""
    done = subprocess.run([programs / "dafsctl", "ping", "-c", "1", "--proto", proto, server], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          check=False)
    lines = (done.stdout or done.stderr).splitlines() or [""]
    told = ["requests up to", "null 1:", "least"]
    if proto == "auto" and "over TCP" in lines[0]:
        told.append("tried before: ")
    for wanted in told:
        if done.returncode == 0 and wanted not in done.stdout:
            raise OSError(f"dafsctl ping {server} does not print {wanted!r}")
    return lines[0] or f"nothing, status {done.returncode}"


def network_device(address):
    """Returns the network device that has `address`."""
    text = subprocess.run(["ip", "-o", "addr", "show", "to", address], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return text.split()[1]


def check(programs, siw, rxe):
    """Raises OSError with every deviation from the expected transports."""
    subprocess.run(["ip", "addr", "replace", f"{IPV6}/64", "dev", network_device(siw), "nodad"], check=True)
    with open("/etc/hosts", "a", encoding="ascii") as hosts:
        hosts.write(f"{siw} {HOST}\n")
    wrong = []

    def expect(server, transport, proto="auto"):
        line = ping(programs, server, proto)
        print(f"  {server} {proto}: {line}", flush=True)
        if transport not in line:
            wrong.append(f"{server} {proto}: {line!r} has no {transport!r}")

    listen = [f"rdma:{siw}:20149", f"rdma:[{IPV6}]:20149", f"rdma:{rxe}:20149", "tcp:127.0.0.1:20149",
              f"tcp:{rxe}:20150"]
    with serving.served(programs, listen):
        expect(siw, "verbs device siw")
        expect(HOST, "verbs device siw")
        expect(f"[{IPV6}]", "verbs device siw")
        expect(rxe, "verbs device rxe")
        expect(siw, "iwarp over TCP", "tcp")
        expect("127.0.0.1", "iwarp over TCP")  # no device has a route to it
        expect(f"{rxe}:20150", "iwarp over TCP")  # a device has one, but no server listens there
        expect(f"{rxe}:20150", "refused", "rdma")
        expect(f"{siw}:20151", "refused", "rdma")
        expect("127.0.0.1", "no route over an RDMA device", "rdma")
        with serving.mounted(programs, f"{siw}:/x", "proto=rdma") as (point, _):
            survive_link_down(point, siw)
    survive_removal(programs)
    if wrong:
        raise OSError("; ".join(wrong))


def survive_removal(programs, address="10.79.0.1", host="dafs-removal-test.example", port=20152):
    """Removes a device under a mount. With proto=auto the mount continues over TCP."""
    for words in (["ip", "link", "add", "dumgone", "type", "dummy"], ["ip", "link", "set", "dumgone", "mtu", "9000", "up"],
                  ["ip", "addr", "add", f"{address}/24", "dev", "dumgone"],
                  ["rdma", "link", "add", "siwgone", "type", "siw", "netdev", "dumgone"]):
        subprocess.run(words, check=True)
    with open("/etc/hosts", "a", encoding="ascii") as hosts:
        hosts.write(f"{address} {host}\n127.0.0.1 {host}\n")
    removal = None
    try:
        with serving.served(programs, [f"rdma:{address}:{port}", f"tcp:127.0.0.1:{port}"]):
            with serving.mounted(programs, f"{host}:{port}:/x", "proto=auto") as (point, _):
                (point / "before").write_text("before")
                first = status_of(programs, point)
                # The connections of the device end immediately. The command ends only after programs have closed the
                # device, because siw cannot revoke it.
                removal = subprocess.Popen(["ip", "link", "delete", "dumgone"])
                serving.wait_for("the link is down", lambda: "LOWER_UP" not in link_flags("dumgone"))
                (point / "after").write_text("after")
                text = (point / "before").read_text() + (point / "after").read_text()
                second = status_of(programs, point)
        if "siwgone" not in first or "over TCP" not in second or text != "beforeafter":
            raise OSError(f"a device was removed: {text!r}, over {first!r}, then {second!r}")
        if removal.wait(60) != 0:
            raise OSError("ip link delete dumgone failed")
    finally:
        if removal is not None and removal.poll() is None:
            removal.kill()


def link_flags(device):
    """Returns the output of `ip link` for a device, with its flags in angle brackets. Empty if the device is gone."""
    return subprocess.run(["ip", "-o", "link", "show", device], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout


def status_of(programs, point):
    """Returns the line of dafsctl status that names the transport of the mount at `point`."""
    text = subprocess.run([programs / "dafsctl", "status", point], text=True, stdout=subprocess.PIPE, timeout=60,
                          check=True).stdout
    return next((line.strip() for line in text.splitlines() if "transport" in line), text)


def survive_link_down(point, address):
    """Sets the link down and up. That ends the device's connections, and the mount reconnects."""
    device = network_device(address)
    (point / "before").write_text("before")
    subprocess.run(["ip", "link", "set", device, "down"], check=True)
    subprocess.run(["ip", "link", "set", device, "up"], check=True)
    pathlib.Path(point / "after").write_text("after")
    if (point / "before").read_text() + (point / "after").read_text() != "beforeafter":
        raise OSError("the mount lost data when the link went down")
