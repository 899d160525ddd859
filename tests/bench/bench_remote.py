"""The network file systems that scripts/bench compares with mount.dafs, from Debian's packages, each on its own
loopback ports: sshfs with and without ssh, GlusterFS, and NFS-Ganesha through libnfs, which needs no mount. And the
NFS of the kernel, in a virtual machine (scripts/rdma-vm).

If `caches` is false, their options disable the caches of attributes and names, and early replies to writes.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import threading

import kernel_nfs
import rig
from bench_peers import System, call, remove_tree

SFTP_SERVER = "/usr/lib/openssh/sftp-server"


def sshfs_options(caches):
    return "" if caches else ",dir_cache=no,attr_timeout=0,entry_timeout=0,sshfs_sync"


class Sshfs(System):
    """sshfs over its own sshd, with ssh's encryption."""

    name = "sshfs"
    about = "sshfs over ssh"

    def start(self):
        for program in ("sshfs", "/usr/sbin/sshd", "ssh-keygen"):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        for key in ("host", "user"):
            call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.state / key], self.place.log)
        self.port = rig.free_port()
        (self.state / "config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.state}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.state}/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            "Subsystem sftp internal-sftp\n", encoding="ascii")
        os.makedirs("/run/sshd", exist_ok=True)
        return self.serve(["/usr/sbin/sshd", "-D", "-e", "-f", self.state / "config"], self.port)

    def attach(self, caches):
        return self.spawn("client", ["sshfs", "-f", f"root@127.0.0.1:{self.place.backing}", self.point, "-p", self.port,
                                     "-o", f"IdentityFile={self.state}/user,StrictHostKeyChecking=no,"
                                           f"UserKnownHostsFile={self.state}/known{sshfs_options(caches)}"])


class SshfsPlain(System):
    """The same without ssh: sftp-server on a plain TCP connection."""

    name = "sshfs-plain"
    about = "sshfs straight to sftp-server over TCP, no cipher"
    access = ""  # only the mounting user may use it, and the kernel does not check permissions

    def start(self):
        if shutil.which("sshfs") is None or not os.path.exists(SFTP_SERVER):
            return "sshfs or sftp-server is not installed"
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.commands["server"] = f"{SFTP_SERVER} on each connection"
        threading.Thread(target=self.accept, daemon=True).start()
        return None

    def accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return  # stopped
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server = subprocess.Popen([SFTP_SERVER], stdin=connection, stdout=connection, stderr=self.place.log,
                                          cwd="/")
            self.children.setdefault("server", []).append(server)

    def attach(self, caches):
        port = self.listening.getsockname()[1]
        return self.spawn("client", ["sshfs", "-f", f"127.0.0.1:{self.place.backing}", self.point,
                                     "-o", f"directport={port}{self.access}{sshfs_options(caches)}"])

    def umount(self):
        super().umount()
        self.end("server")  # it ends with its connection

    def stop(self):
        super().stop()
        if hasattr(self, "listening"):
            self.listening.close()


class SshfsShared(SshfsPlain):
    """The same for all users of the machine, as for mount.dafs: the kernel checks permissions."""

    name = "sshfs-shared"
    about = "the same for all users: allow_other,default_permissions"
    access = ",allow_other,default_permissions"


# The configuration that glusterd 10 creates for a volume with one brick, without the translators that are off. glusterd
# itself is not started, because it refuses a brick on a loopback address.
BRICK = """
volume posix
    type storage/posix
    option directory {brick}
    option volume-id {volume}
end-volume
volume access-control
    type features/access-control
    subvolumes posix
end-volume
volume locks
    type features/locks
    subvolumes access-control
end-volume
volume leases
    type features/leases
    option leases off
    subvolumes locks
end-volume
volume upcall
    type features/upcall
    option cache-invalidation off
    subvolumes leases
end-volume
volume io-threads
    type performance/io-threads
    subvolumes upcall
end-volume
volume index
    type features/index
    option index-base {brick}/.glusterfs/indices
    subvolumes io-threads
end-volume
volume brick
    type debug/io-stats
    option latency-measurement off
    option count-fop-hits off
    subvolumes index
end-volume
volume server
    type protocol/server
    option transport-type tcp
    option transport.address-family inet
    option transport.socket.bind-address 127.0.0.1
    option transport.socket.listen-port {port}
    option auth.addr.brick.allow 127.0.0.1
    subvolumes brick
end-volume
"""
CLIENT = """
volume client
    type protocol/client
    option transport-type tcp
    option transport.address-family inet
    option remote-host 127.0.0.1
    option remote-port {port}
    option remote-subvolume brick
    option send-gids true
end-volume
volume dht
    type cluster/distribute
    subvolumes client
end-volume
volume utime
    type features/utime
    option noatime on
    subvolumes dht
end-volume
"""
CLIENT_CACHES = ("write-behind", "open-behind", "quick-read", "md-cache")


def gluster_client(port, caches):
    text = CLIENT.format(port=port)
    below = "utime"
    for name in (*(CLIENT_CACHES if caches else ()), "io-threads"):
        text += f"volume {name}\n    type performance/{name}\n    subvolumes {below}\nend-volume\n"
        below = name
    return text


class Gluster(System):
    """A volume with one brick, on the same tmpfs or disk. The files are copied to it through its mount."""

    name = "gluster"
    about = "GlusterFS, one brick, as glusterd sets it up"

    def start(self):
        if shutil.which("glusterfsd") is None:
            return "glusterfsd is not installed"
        self.exported = self.place.backing.parent / f"{self.place.backing.name}.brick"
        (self.exported / ".glusterfs" / "indices").mkdir(parents=True)
        volume = "af5c028ad1d246debc21be7c4901e360"
        os.setxattr(self.exported, "trusted.glusterfs.volume-id", bytes.fromhex(volume))
        self.port = rig.free_port()
        identity = f"{volume[:8]}-{volume[8:12]}-{volume[12:16]}-{volume[16:20]}-{volume[20:]}"
        (self.state / "brick.vol").write_text(BRICK.format(brick=self.exported, volume=identity, port=self.port))
        why = self.serve(["glusterfsd", "-N", "-f", self.state / "brick.vol", "-l", self.state / "brick.log",
                          "-p", self.state / "brick.pid"], self.port)
        if why is None:
            self.mount(True)
            call(["cp", "-r", *self.place.backing.iterdir(), self.point], self.place.log)
            self.umount()
        return why

    def attach(self, caches):
        volume_file = self.state / f"client-{int(caches)}.vol"
        volume_file.write_text(gluster_client(self.port, caches))
        layers = ", ".join((*(CLIENT_CACHES if caches else ()), "io-threads"))
        timeouts = [] if caches else ["--attribute-timeout=0", "--entry-timeout=0", "--negative-timeout=0"]
        command = ["glusterfs", "-N", "-f", volume_file, "-l", self.state / "client.log", *timeouts, self.point]
        return f"{self.spawn('client', command)}  (translators: {layers})"

    def stop(self):
        super().stop()
        if self.exported != self.place.backing:
            remove_tree(self.exported)


class KernelNfs(System):
    """The client and server of the kernel. The server is the only one of the machine. Its processor time is not counted."""

    name = "nfs"
    about = "the kernel's NFS 4.2 over TCP"

    def start(self):
        return kernel_nfs.serve(self.place.backing)

    def attach(self, caches):
        options = "vers=4.2" + ("" if caches else ",noac,lookupcache=none")
        call(["mount", "-t", "nfs", "-o", options, "127.0.0.1:/", self.point], self.place.log)
        return f"mount -t nfs -o {options} 127.0.0.1:/"

    def stop(self):
        super().stop()
        kernel_nfs.stop(self.place.backing)


GANESHA = """
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSv4 {{ Grace_Period = 1; Lease_Lifetime = 60; RecoveryRoot = {state}; RecoveryBackend = fs; Graceless = true; }}
EXPORT {{ Export_Id = 1; Path = {backing}; Pseudo = /bench; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
    Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
"""


class Libnfs(System):
    """NFS-Ganesha, with libnfs in the probe: no mount, and no cache except that of libnfs."""

    name = "libnfs"
    about = "NFS-Ganesha by libnfs, no mount"
    # NFSv3 would need the machine's portmapper. Over NFSv4, libnfs 4.0 cannot write 4 KiB.
    ROWS = ("read-4k", "read-1m", "stat", "stat-new", "stat-after-60s", "missing", "create", "create-1k", "open",
            "mkdir", "rename", "unlink")

    def start(self):
        if shutil.which("ganesha.nfsd") is None:
            return "ganesha.nfsd is not installed"
        if not (self.place.bin / "dafs_libnfs_probe").exists():
            return "the build has no dafs_libnfs_probe (libnfs-dev was missing)"
        self.port = rig.free_port()
        (self.state / "ganesha.conf").write_text(
            GANESHA.format(port=self.port, state=self.state, backing=self.place.backing))
        pathlib.Path("/run/ganesha").mkdir(exist_ok=True)
        return self.serve(["ganesha.nfsd", "-F", "-f", self.state / "ganesha.conf", "-L", self.state / "log",
                           "-p", self.state / "pid", "-N", "WARN"], self.port)

    def mount(self, caches):
        self.caches = caches
        self.commands["client"] = f"{self.probe()[0]} ROW {self.point_text()}"

    def umount(self):
        pass

    def has(self, row):
        return row in self.ROWS

    def probe(self):
        return [self.place.bin / "dafs_libnfs_probe"]

    def point_text(self):
        return f"nfs://127.0.0.1/bench?version=4&nfsport={self.port}"


PEERS = {peer.name: peer for peer in (Sshfs, SshfsPlain, SshfsShared, Gluster, Libnfs, KernelNfs)}
