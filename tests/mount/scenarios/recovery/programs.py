"""Programs that must not lose anything, on a mount whose server is killed."""

import glob
import os
import pwd
import random
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from rig import check, equal, note, scenario

from .failures import kill

COUNTED = """
\\set account random(1, 100000 * :scale)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :account;
INSERT INTO counted (client, account) VALUES (:client_id, :account);
END;
"""


class Postgres:
    """A cluster of databases in `data`, run by an ordinary user, its socket on the local disk."""

    def __init__(self, rig, data):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not found:
            pytest.skip("PostgreSQL is not installed")
        self.rig = rig
        self.data = data
        self.bin = found[-1]
        names = [entry.pw_name for entry in pwd.getpwall()]
        self.user = "postgres" if "postgres" in names else "nobody"
        self.sockets = tempfile.mkdtemp(prefix="dafs-pg-")  # a socket's path is short
        shutil.chown(self.sockets, self.user)
        data.mkdir()
        shutil.chown(data, self.user)
        data.chmod(0o700)

    def run(self, program, *words, timeout=300):
        env = {**os.environ, "PGHOST": self.sockets, "PGUSER": "dafs", "PGDATABASE": "postgres"}
        group = pwd.getpwnam(self.user).pw_gid
        print("$", program, *words, flush=True)
        done = subprocess.run([f"{self.bin}/{program}", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=env, cwd=self.sockets, user=self.user, group=group,
                              extra_groups=[], timeout=timeout * self.rig.slowness, check=False)
        text = done.stdout.decode(errors="replace")
        print(text[-3000:], flush=True)
        equal(done.returncode, 0, f"exit status of {program}: {text.strip().splitlines()[-1:]}")
        return text

    def start(self):
        self.run("pg_ctl", "-D", str(self.data), "-l", f"{self.sockets}/log", "-w", "-t", "240", "start", "-o",
                 f"-k {self.sockets} -c listen_addresses= -c shared_buffers=16MB -c max_wal_size=64MB "
                 "-c checkpoint_timeout=30s")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-t", "240", "stop")

    def ask(self, statement):
        return self.run("psql", "-XAtc", statement).strip()


@scenario(timeout=1800, where="server")
def recover_postgres(rig):
    """PostgreSQL on the mount while dafsd is killed: every committed transaction survives, and no page is damaged."""
    rig.expect("session with .* lost", "not connected", "no session for", "new session", "still waiting")
    kills, scale = (30, 5) if rig.full else (2, 1)
    server = rig.serve()
    rig.mount(server)
    postgres = Postgres(rig, rig.mnt / "pg")
    started = False
    try:
        postgres.run("initdb", "-D", str(postgres.data), "--data-checksums", "-U", "dafs", "-A", "trust", "-N")
        postgres.start()
        started = True
        postgres.run("pgbench", "-i", "-q", "-s", str(scale))
        postgres.ask("CREATE TABLE counted (id bigserial PRIMARY KEY, client int, account int)")
        postgres.ask("CREATE EXTENSION amcheck")
        script = f"{postgres.sockets}/counted.sql"
        with open(script, "w", encoding="ascii") as file:
            file.write(COUNTED)
        seconds = 4 * kills + 4
        env = {**os.environ, "PGHOST": postgres.sockets, "PGUSER": "dafs", "PGDATABASE": "postgres"}
        with open(f"{postgres.sockets}/pgbench", "wb") as output, \
                subprocess.Popen([f"{postgres.bin}/pgbench", "-n", "-c", "4", "-T", str(seconds), "-s", str(scale), "-f",
                                  script], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env,
                                 cwd="/") as bench:
            for _ in range(kills):
                time.sleep(random.uniform(1, 3))
                kill(server)
                time.sleep(random.choice((0, 0.5)))
                server.start()
            equal(bench.wait((seconds + 300) * rig.slowness), 0, "exit status of pgbench")
        with open(f"{postgres.sockets}/pgbench", encoding="utf-8") as file:
            text = file.read()
        print(text, flush=True)
        committed = int(re.search(r"transactions actually processed: (\d+)", text).group(1))
        check("number of failed transactions: 0 " in text or "failed transactions" not in text, "transactions failed")
        check(committed > 10 * kills, f"only {committed} transactions")
        postgres.stop("immediate")  # from now on it recovers from its log on the mount
        kill(server)
        server.start()
        postgres.start()
        equal(int(postgres.ask("SELECT count(*) FROM counted")), committed, "transactions in the table")
        equal(int(postgres.ask("SELECT sum(abalance) FROM pgbench_accounts")), committed, "what they added up to")
        postgres.run("pg_amcheck", "--heapallindexed", "--parent-check", "-d", "postgres")
        postgres.stop()
        started = False
        postgres.run("pg_checksums", "--check", "-D", str(postgres.data))
        note(f"{kills} kills, {committed} transactions")
    finally:
        if started:
            subprocess.run([f"{postgres.bin}/pg_ctl", "-D", str(postgres.data), "-m", "immediate", "stop"],
                           user=postgres.user, check=False, stdin=subprocess.DEVNULL, timeout=60, cwd="/")
        shutil.rmtree(postgres.sockets, ignore_errors=True)
