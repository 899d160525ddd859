"""dafs-exporter: its figures are those of dafsctl, and Prometheus understands them."""

import contextlib
import json
import mmap
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

import processes
from rig import SOURCE, check, equal, free_port, note, scenario

EXPORTER = SOURCE / "share/exporter/dafs-exporter"
PYTHON = "/usr/bin/python3"  # which has Debian's modules
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def need_exporter(rig):
    if subprocess.run([PYTHON, "-c", "import prometheus_client"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("python3-prometheus-client is not installed")


def samples(text):
    """{(name, ((label, value), ...)): number} of the text format."""
    return {(name, tuple(sorted(LABEL.findall(labels)))): float(value) for name, labels, value in SAMPLE.findall(text)}


def scrape(rig, socket_path):
    """Runs the exporter once; returns its text."""
    place = rig.local / "textfile"
    place.mkdir(exist_ok=True)
    rig.run([PYTHON, EXPORTER, "--textfile", place, "--socket", socket_path], cwd="/", timeout=60)
    return (place / "dafs.prom").read_text(encoding="utf-8")


def report(rig, *words):
    return json.loads(rig.run([rig.bin / "dafsctl", *words, "--json"], cwd="/"))


def counts(found, mount, procedure):
    """The requests of a procedure, by result."""
    return {dict(labels)["result"]: value for (name, labels), value in found.items()
            if name == "dafs_mount_requests_total" and ("mount", mount) in labels and ("procedure", procedure) in labels}


@scenario(timeout=120, where="server")
def metrics(rig):
    """Requests, their times and states in the metrics are those of dafsctl; promtool, if installed, accepts metrics and rules."""
    need_exporter(rig)
    server = rig.serve()
    point = str(rig.mount(server))
    for number in range(20):
        (rig.mnt / f"file{number}").write_bytes(os.urandom(5000))
    missing = [rig.mnt / f"missing{number}" for number in range(7)]
    check(not any(path.exists() for path in missing), "files that were not made")
    with open(rig.mnt / "file0", "rb"):
        # Figures may change between two questions: those that bracket the scrape must agree.
        def compare():
            before = report(rig, "stats", point)
            text = scrape(rig, server.socket)
            after = report(rig, "stats", point)
            found = samples(text)
            for procedure, first in before["procedures"].items():
                last = after["procedures"][procedure]
                here = counts(found, point, procedure.lower())
                for result, member in (("error", "errors"), ("lost", "lost")):
                    check(first[member] <= here[result] <= last[member], f"{procedure} {result}: {here}, {first}, {last}")
                check(first["calls"] <= here["ok"] + here["error"] <= last["calls"], f"{procedure}: {here}, {first}, {last}")
                labels = (("mount", point), ("procedure", procedure.lower()))
                equal(found["dafs_mount_request_seconds_count", labels], here["ok"] + here["error"], f"times of {procedure}")
                seconds = found["dafs_mount_request_seconds_sum", labels]
                check(first["total_us"] <= seconds * 1e6 + 1 and seconds * 1e6 - 1 <= last["total_us"],
                      f"time of {procedure}: {seconds} s, {first}, {last}")
            return text, found, before

        text, found, before = compare()
        mount = (("mount", point),)
        sessions = [worker["session"] for worker in before["workers"] if worker["session"]]
        equal(found["dafs_mount_up", mount], 1, "whether the mount is up")
        equal(found["dafs_mount_sessions", mount], len(sessions), "sessions")
        equal(found["dafs_mount_credits", mount], sum(session["nreq"] for session in sessions), "credits")
        equal(found["dafs_mount_recoveries_total", mount], 0, "recoveries")
        check(sum(counts(found, point, "write_direct").values()) + sum(counts(found, point, "write_inline").values()) +
              sum(counts(found, point, "append_inline").values()) > 0, "no write is counted")
        status = report(rig, "server", "status", "--socket", server.socket)
        for name, value in (("up", 1), ("clients", status["clients"]), ("locks", 0), ("grace_seconds", 0),
                            ("response_cache_bytes", status["response_cache_bytes"])):
            equal(found[f"dafsd_{name}", ()], value, f"dafsd_{name}")
    check_names(rig, {name for name, _labels in found})
    if shutil.which("promtool") is None:
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, check=False)
    equal((done.returncode, done.stdout), (0, ""), "promtool check metrics")
    rules = SOURCE / "share/prometheus"
    rig.run(["promtool", "check", "rules", rules / "dafs.rules.yml"], cwd="/", timeout=60)
    rig.run(["promtool", "test", "rules", rules / "dafs.rules.test.yml"], cwd="/", timeout=60)


def check_names(rig, exported):
    """Alert rules and the dashboard name only what is exported, and Prometheus can read the dashboard's expressions."""
    dashboard = json.loads((SOURCE / "share/grafana/grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    check(len(expressions) >= 12, "the dashboard has lost its expressions")
    texts = [*expressions, (SOURCE / "share/prometheus/dafs.rules.yml").read_text()]
    # Older programs report neither bytes nor histograms for each procedure.
    optional = {"dafs_mount_bytes_total"}
    named = {name for text in texts for name in re.findall(r"\bdafsd?_\w+(?=[{ ]|\[)", text)}
    equal(named - exported - optional, set(), "metrics that the rules or the dashboard name")
    if shutil.which("promtool") is None:
        return
    rules = [{"record": f"r:{number}", "expr": text.replace("$__rate_interval", "5m").replace("$", "")}
             for number, text in enumerate(expressions)]
    path = rig.local / "dashboard.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    rig.run(["promtool", "check", "rules", path], cwd="/", timeout=60)


@scenario(timeout=120, where="server")
def metrics_hang(rig):
    """A mount that hangs and one that was killed are reported as not up, by HTTP, without delay of another one."""
    need_exporter(rig)
    rig.expect(".*")
    server = rig.serve()
    source = f"{rig.address}:{server.port}:/data"
    points = {}
    for name in ("good", "hangs", "dead"):
        points[name] = rig.base / name
        points[name].mkdir()
        before = set(rig.daemons())
        rig.run(rig.mount_command(source, points[name], "noguardian"), cwd="/")
        points[name, "pid"] = next(iter(set(rig.daemons()) - before))
    os.kill(points["dead", "pid"], signal.SIGKILL)
    os.kill(points["hangs", "pid"], signal.SIGSTOP)
    port = free_port()
    refused = subprocess.run([PYTHON, EXPORTER, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True,
                             timeout=60, check=False)
    equal(refused.returncode, 1, "exit status of an exporter of root")
    check("not as root" in refused.stderr, f"the message: {refused.stderr}")
    # Not root. In place of the group that may ask the sockets, a capability.
    exporter = subprocess.Popen(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "+dac_override", "--ambient-caps",
         "+dac_override", PYTHON, EXPORTER, "--listen", f"127.0.0.1:{port}", "--socket", server.socket],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    try:
        check(processes.wait_until(lambda: listening(port), 30 * rig.slowness), "the exporter does not listen")
        started = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60 * rig.slowness) as answer:
            found = samples(answer.read().decode())
        took = time.monotonic() - started
        for name, up in (("good", 1), ("hangs", 0), ("dead", 0)):
            equal(found["dafs_mount_up", (("mount", str(points[name])),)], up, f"whether the mount {name} is up")
        equal(found["dafsd_up", ()], 1, "whether dafsd is up")
        check(("dafs_mount_sessions", (("mount", str(points["good"])),)) in found, "no figures of the good mount")
        check(found["dafs_exporter_seconds", ()] >= 2, "the exporter did not wait for the mount that hangs")
        check(took < 30 * rig.slowness, f"the scrape took {took:.1f} s")
    finally:
        os.kill(points["hangs", "pid"], signal.SIGCONT)
        exporter.terminate()
        try:
            status = exporter.wait(20 * rig.slowness)
        except subprocess.TimeoutExpired:
            exporter.kill()
            status = exporter.wait()
    equal(status, 0, "exit status of the exporter after SIGTERM")
    for name in ("good", "hangs", "dead"):
        rig.run(["umount", points[name]], cwd="/", timeout=30)


MANY = 100
IDLE_SECONDS = 20
TOP_REPORTS = 11


def cpu_seconds(pids):
    """The CPU time of processes until now."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def calls_of(found, point, names=("",)):
    """The answered requests of a mount whose procedure begins with one of `names`."""
    return sum(value for (name, labels), value in found.items()
               if name == "dafs_mount_requests_total" and ("mount", str(point)) in labels and
               dict(labels)["result"] != "lost" and dict(labels)["procedure"].startswith(tuple(names)))


def read_directly(path, count):
    """Each read is one request."""
    buffer = mmap.mmap(-1, 4096)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for _ in range(count):
        equal(os.preadv(file, [buffer], 0), 4096, "bytes read")
    os.close(file)


@contextlib.contextmanager
def exporter_by_http(server):
    """An exporter that runs as another user. Yields the process and a function that returns its samples."""
    port = free_port()
    exporter = subprocess.Popen(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "+dac_override", "--ambient-caps",
         "+dac_override", PYTHON, EXPORTER, "--listen", f"127.0.0.1:{port}", "--socket", server.socket],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    def scraped():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return samples(answer.read().decode())

    try:
        check(processes.wait_until(lambda: listening(port), 30), "the exporter does not listen")
        yield exporter, scraped
    finally:
        exporter.terminate()
        exporter.wait(30)


def calls_that_top_shows(command, reads):
    """Runs top during the reads of each mount. Returns how many calls of each mount it shows, and the number of reports."""
    lines = []
    with subprocess.Popen([*command, "-d", "2"], stdout=subprocess.PIPE, text=True) as top:
        reader = threading.Thread(target=lambda: lines.extend((time.monotonic(), line) for line in top.stdout))
        reader.start()
        count = lambda: sum("CREDITS" in line for _, line in list(lines))
        check(processes.wait_until(lambda: count() > 0, 60), "top reports nothing")
        for point, number in reads.items():
            read_directly(point / "file", number)
        last = count() + 2
        check(processes.wait_until(lambda: count() >= last, 120), "top reports no more")
        top.terminate()
        reader.join()
    shown, at, interval = dict.fromkeys(map(str, reads), 0), None, 0
    for when, line in lines:
        if "CREDITS" in line:  # a report; the first counts from the start of each mount
            interval, at = (when - at if at else 0), when
        found = re.match(r" *(\d+) .*\d  \S+ on (\S+)$", line)
        if found and found[2] in shown:  # not a mount of another test
            shown[found[2]] += int(found[1]) * interval
    return shown, count()


@scenario(timeout=600, where="server", long_only=True)
def metrics_many(rig):
    """With 100 mounts, dafsctl top and the exporter count each mount's requests, and cost little CPU time."""
    need_exporter(rig)
    server = rig.serve()
    (rig.export / "file").write_bytes(b"x" * 4096)
    points = [rig.mount(server)]
    while len(points) < MANY:
        point = rig.base / f"mount{len(points)}"
        point.mkdir()
        points.append(rig.mount(server, point=point))
    reads = {point: 50 + 5 * number for number, point in enumerate(points)}
    daemons = [process.pid for process in rig.mounted.values()] + [server.process.pid]
    top_command = [rig.bin / "dafsctl", "top", "-b", "--socket", server.socket]
    with exporter_by_http(server) as (exporter, scraped):
        before = scraped()
        shown, reports = calls_that_top_shows(top_command, reads)
        after = scraped()
        for point, count in reads.items():
            equal(calls_of(after, point, ["read_"]) - calls_of(before, point, ["read_"]), count, f"reads of {point.name}")
            total = calls_of(after, point) - calls_of(before, point)
            # top rounds the calls per second.
            found = shown[str(point)]
            check(abs(found - total) <= 0.3 * total + 2 * reports, f"{point.name}: top shows {found:.0f} calls of {total:.0f}")
        at_server = {dict(labels)["procedure"]: value for (name, labels), value in after.items()
                     if name == "dafsd_requests_total" and dict(labels)["result"] == "ok"}
        check(sum(value for name, value in at_server.items() if name.startswith("read_")) >= sum(reads.values()),
              f"reads at the server: {at_server}")
        note(f"{MANY} mounts: {sum(reads.values())} reads are counted")
        cost = {"nothing": lambda: time.sleep(IDLE_SECONDS), "exporter": scraped,
                "top": lambda: rig.run([*top_command, "-n", str(TOP_REPORTS)], cwd="/")}
        took = {}
        for what, work in cost.items():
            asked = [exporter.pid, *daemons]
            start, children = cpu_seconds(asked), resource.getrusage(resource.RUSAGE_CHILDREN)
            work()
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            took[what] = (cpu_seconds(asked) - start, ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime)
            note(f"{what}: {took[what][0] * 1000:.0f} ms of CPU time in mounts, server and exporter, "
                 f"{took[what][1] * 1000:.0f} ms in programs that have ended")
        # About 4 ms for each mount and scrape, and 0.8 ms for each report of top.
        for what, limit in (("exporter", 0.04), ("top", 0.01 * TOP_REPORTS)):
            check(sum(took[what]) < MANY * limit, f"{what} takes {took[what]} s of CPU time")


@scenario(timeout=60, where="server")
def metrics_made_up(rig):
    """Histograms and sums of made-up reports are exact; a wrong answer is a mount that is not up, and stops nothing."""
    need_exporter(rig)
    place = rig.local / "sockets"
    place.mkdir()
    histogram = {"calls": 6, "errors": 2, "lost": 1, "retries": 3, "sent_bytes": 480, "received_bytes": 3000,
                 "queued": 1, "queue_us": 1500, "total_us": 9_000_000,
                 "buckets": [1, 0, 0, 0, 0, 2, *([0] * 17), 1, *([0] * 7), 2]}
    bounds = [1 << power for power in range(31)]
    mount = {"mount_point": "/m \"x", "bucket_bounds_us": bounds, "procedures": {"READ_DIRECT": histogram},
             "workers": [{"connects": 3, "session": {"nreq": 7, "slots_taken": 2, "waiting_for_slots": 1}},
                         {"connects": 0, "session": None, "not_connected_us": 2_500_000}]}
    answers = {"dafsd.sock": lambda asked: {"json status": {"clients": 4, "grace": {"active": True, "left_us": 1_500_000}},
                                            "json stats": {"bucket_bounds_us": bounds, "procedures": {"OPEN": histogram},
                                                           "sessions": {"opened": 5, "lost": 1}}}[asked]}
    made_up = {f"{number:016x}.sock": answer for number, answer in enumerate(
        (mount, [], "text", {"procedures": {}, "workers": None}), start=1)}
    answers |= {name: lambda _asked, answer=answer: answer for name, answer in made_up.items()}
    sockets = []

    def serve(listener, answer):
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            with peer:
                asked = peer.makefile().readline().strip()
                peer.sendall(json.dumps(answer(asked)).encode())

    for name, answer in answers.items():
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place / name))
        listener.listen()
        sockets.append(listener)
        threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
    for number in range(100):  # more than the descriptors below: killed programs leave such sockets
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(place / f"{number + 100:016x}.sock"))
    (rig.local / "mountinfo").write_text("")
    rig.run(["prlimit", "--nofile=64", PYTHON, EXPORTER, "--textfile", rig.local, "--directory", place, "--mountinfo", rig.local / "mountinfo"],
            cwd="/", timeout=50)
    for listener in sockets:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    found = samples((rig.local / "dafs.prom").read_text())
    point = ("mount", r"/m \"x")
    read = (point, ("procedure", "read_direct"))
    wanted = {("dafs_mount_up", (point,)): 1, ("dafs_mount_sessions", (point,)): 1, ("dafs_mount_credits", (point,)): 7,
              ("dafs_mount_recoveries_total", (point,)): 2, ("dafs_mount_disconnected_seconds", (point,)): 2.5,
              ("dafs_mount_request_seconds_count", read): 6, ("dafs_mount_request_seconds_sum", read): 9,
              ("dafs_mount_queue_seconds_total", read): 0.0015, ("dafs_mount_retries_total", read): 3,
              ("dafs_mount_requests_total", (*read, ("result", "ok"))): 4,
              ("dafs_mount_bytes_total", tuple(sorted((("direction", "received"), *read)))): 3000,
              ("dafsd_clients", ()): 4, ("dafsd_grace_seconds", ()): 1.5, ("dafsd_sessions_lost_total", ()): 1,
              ("dafsd_request_seconds_count", (("procedure", "open"),)): 6}
    for number in (2, 3):
        wanted["dafs_mount_up", (("mount", str(place / f"{number:016x}.sock")),)] = 0
    wanted["dafs_mount_up", (("mount", str(place / f"{4:016x}.sock")),)] = 1
    for key, value in wanted.items():
        check(abs(found.get(key, -1) - value) < 1e-9, f"{key}: {found.get(key)} instead of {value}")
    buckets = sorted((float(dict(labels)["le"]), value) for (name, labels), value in found.items()
                     if name == "dafs_mount_request_seconds_bucket" and point in labels)
    equal(buckets[0], (16e-6, 1), "the first bucket: times below 16 us")
    equal(buckets[1], (32e-6, 3), "the second bucket")
    equal(buckets[-2:], [((1 << 24) * 1e-6, 4), (float("inf"), 6)], "the last buckets")


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@scenario(timeout=60, where="server")
def completion(rig):
    """bash completes commands, options, values and mount points of the installed programs."""
    rig.need("bash")
    server = rig.serve()
    point = rig.base / "a b"
    point.mkdir()
    rig.mount(server, point=point)
    cases = {
        ("dafsctl", "st"): {"status", "stats"},
        ("dafsctl", "server", "lo"): {"locks", "log"},
        ("dafsctl", "server", "log", "w"): {"warning"},
        ("dafsctl", "ping", "--proto", ""): {"auto", "tcp", "rdma"},
        ("dafsctl", "ping", "--pr"): {"--proto"},
        ("dafsctl", "status", str(rig.base)): {str(point).replace(" ", "\\ ")},
        ("mount.dafs", "a:/b", "/mnt", "-o", "ro,nconn"): {"ro,nconnect="},
        ("dafsd", "--delegations", "r"): {"read"},
        ("dafsd", "--delega"): {"--delegations"},
    }
    for words, wanted in cases.items():
        script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '"$(complete -p "$1" | sed "s/.*-F \\([^ ]*\\) .*/\\1/")"; printf "%s\\n" "${COMPREPLY[@]}"')
        said = rig.run(["bash", "-c", script, "bash", SOURCE / "share/completion/dafs.bash", *words], cwd="/",
                       env=dict(os.environ, PATH=f"{rig.bin}:{os.environ['PATH']}"))
        equal({line for line in said.splitlines() if line}, wanted, f"completion of {' '.join(words)}")
