"""The deliverables work as documented: installed files, quickstart, the examples of README and manual pages."""

import os
import re
import shlex

import pytest

import processes
from rig import SOURCE, check, equal, listening, scenario, free_port
from scenarios.mounting.mounting import Helper

DEFAULT_PORT = 20149


@scenario(timeout=60, where="server")
def install(rig):
    """cmake --install puts programs, manual pages and units where a distribution expects them."""
    rig.need("cmake")
    build = rig.bin.parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip(f"{build} is not a build directory")
    for prefix in ("/usr", "/usr/local"):
        stage = rig.local / prefix.strip("/").replace("/", "-")
        rig.run(["cmake", "--install", build, "--prefix", prefix], cwd="/", env=dict(os.environ, DESTDIR=str(stage)))
        top = stage / prefix.strip("/")
        for program in ("sbin/mount.dafs", "sbin/dafsd", "bin/dafsctl", "bin/dafs-lock"):
            rig.run([top / program, "--help"], cwd="/")
        for page in ("man8/mount.dafs.8", "man8/dafsd.8", "man8/dafsctl.8", "man5/dafsd.conf.5",
                     "man1/dafs-lock.1"):
            check((top / "share/man" / page).is_file(), f"no {page}")
        unit = (top / "lib/systemd/system/dafsd.service").read_text()
        check(f"ExecStart={prefix}/sbin/dafsd " in unit, "the unit does not start the installed dafsd")
        if prefix == "/usr/local":
            for name in ("mount.dafs", "mount.fuse.dafs"):
                equal(os.readlink(stage / "sbin" / name), "/usr/local/sbin/mount.dafs", f"link {name} in /sbin")
        else:
            equal(os.readlink(top / "sbin/mount.fuse.dafs"), "mount.dafs", "link mount.fuse.dafs")


@scenario(timeout=180, where="server", loopback=True)
def library(rig):
    """Programs in C++, C and Python copy a file with what `cmake --install --component library` installs."""
    rig.need("cmake", "pkg-config", "g++")
    build = rig.bin.parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip(f"{build} is not a build directory")
    if not re.search(r"^DAFS_SANITIZE:\w+=$", (build / "CMakeCache.txt").read_text(), re.MULTILINE):
        pytest.skip("with a sanitizer the library wants the same of the program")
    if rig.server_proto != "tcp":
        pytest.skip("the example speaks TCP")
    place = rig.local / "library"
    rig.run(["cmake", "--install", build, "--component", "library", "--prefix", place], cwd="/")
    found = next(place.rglob("libdafs.pc"))
    env = dict(os.environ, PKG_CONFIG_PATH=str(found.parent), LD_LIBRARY_PATH=str(found.parent.parent))

    def flags_of(name):
        flags = rig.run(["pkg-config", "--cflags", "--libs", name], cwd="/", env=env).split()
        check(not any(str(SOURCE) in flag for flag in flags), f"pkg-config names the sources: {flags}")
        return flags

    program, c_program = place / "example", place / "c-example"
    example = SOURCE / "tests/client/library/library_example.cc"
    rig.run(["g++", "-std=c++20", example, *flags_of("libdafs-cpp"), "-o", program], cwd="/", timeout=150)
    rig.run(["gcc", "-std=c99", SOURCE / "tests/client/c/example.c", *flags_of("libdafs"), "-o", c_program], cwd="/")
    data = os.urandom((5 << 20) + 17)
    (rig.export / "from").write_bytes(data)
    server = rig.serve()
    address = f"{rig.address}:{server.port}"
    rig.run([program, address, "/data", "/from", "/to"], cwd="/")
    check((rig.export / "to").read_bytes() == data, "the copy differs")
    rig.run(["sh", "-c", f"{c_program} {address} /data from > {place}/printed"], cwd="/", env=env)
    check((place / "printed").read_bytes() == data, "the C program prints something else")
    env["PYTHONPATH"] = str(next(place.rglob("dist-packages")))
    rig.run(["/usr/bin/python3", SOURCE / "tests/client/c/example.py", address, "/data", "from", "again"], cwd="/", env=env)
    check((rig.export / "again").read_bytes() == data, "the copy by Python differs")


@scenario(timeout=300, where="server", loopback=True, alone=True)
def quickstart(rig):
    """scripts/quickstart twice, then --stop: it works, may be repeated, and leaves nothing. It may link programs again."""
    demo = SOURCE / "demo"
    if rig.bin != SOURCE / "build" / "bin":
        pytest.skip("it uses build/, this run another directory")
    if demo.exists():
        pytest.skip("demo/ is in use")
    script = SOURCE / "scripts" / "quickstart"
    env = dict(os.environ, DEMO_PORT=str(free_port()))
    try:  # The timeouts end before that of the scenario, because only --stop unmounts demo/.
        for _ in range(2):
            rig.run([script, "--no-install"], cwd="/", env=env, timeout=100)
            equal((demo / "mnt" / "README.md").read_text(), (SOURCE / "README.md").read_text(), "README on the mount")
        (demo / "mnt" / "new").write_text("x")
        equal((demo / "export" / "new").read_text(), "x", "a file in the export")
    finally:
        rig.run([script, "--stop"], cwd="/", env=env, timeout=60)
    check(not demo.exists(), "demo/ is still there")


def readme_commands():
    """The commands of the README's section on serving and mounting, and its fstab line."""
    section = (SOURCE / "README.md").read_text().split("## Serve and mount", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^    (\S.*)$", section, re.MULTILINE)


def manual_commands(page):
    """Returns the text between .EX and .EE in the section EXAMPLES of a page."""
    section = (SOURCE / "man" / page).read_text().split(".SH EXAMPLES", 1)[1].split(".SH ", 1)[0]
    return [line for block in re.findall(r"\.EX\n(.*?)\.EE", section, re.DOTALL) for line in block.splitlines()]


@scenario(timeout=120, where="server", loopback=True)
def examples(rig):
    """Every example of README.md and of the manual pages of dafsd and mount.dafs runs unchanged."""
    if listening(DEFAULT_PORT):
        pytest.skip(f"port {DEFAULT_PORT} is taken")
    state = rig.local / "state"
    (rig.export / "hello").write_text("hello")
    env = dict(os.environ, PATH=f"{rig.bin}:{os.environ['PATH']}")

    def here(text):
        for there, local in {"192.0.2.1": "127.0.0.1", "files.example.com": "127.0.0.1", "/srv/demo": str(rig.export),
                             "/var/lib/dafsd": str(state), "/mnt": str(rig.mnt)}.items():
            text = text.replace(there, local)
        return text

    def servers():
        return [pid for pid, command in processes.marked(os.environ[processes.MARK]).items()
                if os.path.basename(command.split()[0]) == "dafsd"]

    def run(line):
        words = shlex.split(here(line))
        if words[0] == "mkdir":
            if not state.exists():
                rig.run(words, cwd="/")
            return
        if words[0] == "dafsd":
            if servers():
                return
            words = [word for word in words if word != "--foreground"]
            rig.run(words, cwd="/", env=env, timeout=20)
            check(processes.wait_until(lambda: listening(DEFAULT_PORT), 10), f"nothing listens after: {line}")
        elif words[:2] == ["dafsctl", "doctor"]:  # may warn of this machine
            status, text = rig.run(words, cwd="/", env=env, timeout=30, status=None)
            check(status in (0, 1), f"{line}: exit status {status}: {text}")
        elif words[0] in ("mount", "mount.dafs", "umount", "dafsctl"):
            rig.run(words, cwd="/", env=env, timeout=30)
        elif len(words) == 6 and words[2] == "dafs":
            table = rig.local / "fstab"
            table.write_text(here(line) + "\n")
            rig.run(["mount", "-T", table, words[1]], cwd="/")
        else:
            raise AssertionError(f"an example that this test does not know: {line}")
        if words[0] not in ("dafsd", "umount", "dafsctl"):
            equal((rig.mnt / "hello").read_text(), "hello", f"a file after: {line}")

    lines = (readme_commands() + ["umount /mnt"] + manual_commands("dafsd.8") + manual_commands("mount.dafs.8") +
             ["umount /mnt", "mount.dafs files.example.com:/demo /mnt"] + manual_commands("dafsctl.8"))
    with Helper(rig):
        for line in lines:
            if os.path.ismount(rig.mnt) and not line.startswith(("umount", "dafsctl")):
                rig.run(["umount", rig.mnt], cwd="/")
            run(line)
        if os.path.ismount(rig.mnt):
            rig.run(["umount", rig.mnt], cwd="/")
    check(servers(), "the server of the examples is gone")
    check(processes.end(servers(), 10), "dafsd does not end")


@scenario(timeout=60, where="server", loopback=True)
def configuration(rig):
    """The example configuration files start a server with the exports that they name."""
    if listening(DEFAULT_PORT):
        pytest.skip(f"port {DEFAULT_PORT} is taken")
    for name in ("home", "media"):
        (rig.local / name).mkdir()
    for number, text in enumerate(("\n".join(manual_commands("dafsd.conf.5")),
                                   (SOURCE / "man/examples/dafsd.conf").read_text())):
        state = rig.local / f"state{number}"
        state.mkdir(mode=0o700)
        for there, here in {"clients=192.0.2.0/24": "clients=127.0.0.0/8", "192.0.2.1": "127.0.0.1",
                            "0.0.0.0:": "127.0.0.1:", "/srv/": f"{rig.local}/", "/var/lib/dafsd": str(state)}.items():
            text = text.replace(there, here)
        file = rig.local / "dafsd.conf"
        file.write_text(text)
        extra = [] if "state-dir" in text else ["--state-dir", str(state)]
        rig.run([rig.bin / "dafsd", "--config", file, *extra], cwd="/", timeout=20)
        rig.run(rig.mount_command("127.0.0.1:/", rig.mnt), cwd="/")
        equal(sorted(os.listdir(rig.mnt)), ["home", "media"], "exports")
        rig.run(["umount", rig.mnt], cwd="/")
        pid = int((state / "dafsd.pid").read_text())
        check(processes.end([pid], 10), "dafsd does not end")
        check(not (state / "dafsd.pid").exists(), "the pid file is still there")


def example_exports(rig):
    """Makes a directory for each export that man/examples name, each with a file; returns {export: directory}."""
    exports = {}
    for name in ("home", "backup", "scratch", "media", "demo", "projects"):
        directory = rig.export / name
        (directory / "ann").mkdir(parents=True, exist_ok=True)
        for at in (directory, directory / "ann"):
            (at / "hello").write_text(f"{name} says hello")
        exports[f"/{name}"] = directory
    return exports


def example_names(rig, port):
    """The configuration of man/examples/names.conf, with the names of man/examples/names at the server of this test."""
    names, conf = rig.local / "names", rig.local / "names.conf"
    names.write_text(re.sub(r"(?<!//)files[12]\.example\.com(?=:/)", f"127.0.0.1:{port}",
                            (SOURCE / "man/examples/names").read_text()))
    conf.write_text((SOURCE / "man/examples/names.conf").read_text() + f"file = {names}\n")
    return conf


def example_fstab(rig, port):
    """The lines of man/examples/fstab, split, with the server of this test and directories of its own."""
    lines = []
    for line in (SOURCE / "man/examples/fstab").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            source, point, kind, options, dump, order = line.split()
            if ":" not in source:
                options += f",names={example_names(rig, port)}"
            source = re.sub(r"^(files\.example\.com|\[2001:db8::5\]:20150)(?=:/)", f"127.0.0.1:{port}", source)
            check(source.startswith("127.0.0.1") or ":" not in source, f"man/examples/fstab: a server that this test does not know: {line}")
            point = rig.base / "points" / point.strip("/")
            point.mkdir(parents=True, exist_ok=True)
            lines.append((source, str(point), kind, options, dump, order))
    return lines


@scenario(timeout=120, where="server", loopback=True)
def example_files(rig):
    """dafsd serves by man/examples/dafsd.conf, and each line of man/examples/fstab is mounted by mount(8)."""
    exports = example_exports(rig)
    port = free_port()
    text = (SOURCE / "man/examples/dafsd.conf").read_text()
    for there, here in {"0.0.0.0:20149": f"127.0.0.1:{port}", "192.0.2.0/24": "127.0.0.0/8",
                        "/srv/home": str(exports["/home"]), "/srv/media": str(exports["/media"])}.items():
        check(there in text, f"man/examples/dafsd.conf has no {there}")
        text = text.replace(there, here)
    conf = rig.local / "dafsd.conf"
    conf.write_text(text)
    more = [f"{name}={directory},rw" for name, directory in exports.items() if name not in ("/home", "/media")]
    rig.serve(more, ["--config", conf])
    table = rig.local / "fstab"
    lines = example_fstab(rig, port)
    table.write_text("".join(" ".join(line) + "\n" for line in lines))
    with Helper(rig):
        for source, point, _kind, options, *_ in lines:
            rig.run(["mount", "-T", table, point], cwd="/", timeout=30)
            name = source.split(":/")[-1].split("/")[0]
            equal(open(f"{point}/hello", encoding="ascii").read(), f"{name} says hello", f"a file of {source}")
            writable = os.access(point, os.W_OK)
            equal(writable, "ro" not in options.split(","), f"whether {source} can be written to")
            rig.run(["umount", point], cwd="/")


@scenario(timeout=60, where="server")
def unit(rig):
    """systemd accepts the unit of dafsd without a warning, rates its exposure at most 4, and starts it before mounts of the same machine."""
    rig.need("systemd-analyze")
    text = (SOURCE / "man/systemd/dafsd.service.in").read_text().replace("@dafs_sbin@", str(rig.bin))
    check("Documentation=man:" in text, "the unit names no manual page")
    text = re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE)  # the pages need not be installed here
    path = rig.local / "dafsd.service"
    path.write_text(text)
    said = rig.run(["systemd-analyze", "verify", "--man=no", path], cwd="/", timeout=30)
    check("dafsd.service" not in said, f"systemd-analyze verify: {said}")
    command = "systemd-analyze security --offline=true --threshold=40 --no-pager".split()
    status, said = rig.run([*command, path], cwd="/", timeout=30, status=None)
    check(status == 0, f"systemd-analyze security: {said[-300:]}")
    for line in ("Wants=remote-fs-pre.target", "Before=remote-fs-pre.target", "Type=notify"):
        check(f"\n{line}\n" in text, f"no {line} in the unit")
