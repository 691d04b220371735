"""What a rating costs, beside a bare view with one INSERT on the same server, and beside commits of the database alone.

.venv/bin/python benchmarks/ratings.py [--connections 1 8 32] [--rounds 5] [--seconds 3] [--postgres URL] [--skip-sqlite]

Starts ``manage.py serve`` twice, once with Ratchet and once with the site in benchmarks/ratings_site (no middleware, one
view, one INSERT), each on a database of its own, and loads them in turns with the same client in a process of its own: what
else the machine does meets all three. Prints medians over the rounds and, for each number of connections, ratios:
ratings a second (at least half of the smaller of the two others), CPU of the server's process for each (at most three times
the bare view's) and p99 (at most three times). Then it kills the server with SIGKILL under load and counts. Fails when a bar
is missed, when an answer is not 201, or when a rating that was answered is not stored. ``--postgres`` needs a role that may
make databases; two are made and dropped.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.ratings_load import Taken  # noqa: E402

LOAD = str(ROOT / "benchmarks" / "ratings_load.py")
LEAST_RATE, MOST_CPU, MOST_P99 = 0.5, 3.0, 3.0
RATCHET = """
from django.core.management import call_command
from rl.models import Agent, ApiKey, Trace
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="bench")
prompt = [{"role": "user", "content": "Where is my parcel?"}]
traces = [Trace(agent=agent, prompt=prompt, response="On its way.") for _ in range(2000)]
Trace.objects.bulk_create(traces)
print(ApiKey.create(name="bench", kind="secret")[1], *[trace.pk for trace in traces])
"""
BARE = """
from django.core.management import call_command
from django.db import connection
call_command("migrate", verbosity=0)
number = "integer PRIMARY KEY" if connection.vendor == "sqlite" else "bigserial PRIMARY KEY"
with connection.cursor() as cursor:
    cursor.execute(f"CREATE TABLE bare_rating (id {number}, trace text, rater text, scale text, value double precision)")
"""
COUNT = """
from rl.models import Feedback
print(*[f"{trace}/{rater}" for trace, rater in Feedback.objects.filter(is_current=True).values_list("trace", "rater")])
"""


class Figures(NamedTuple):
    rate: float
    """A second."""
    cpu: float
    """Milliseconds of the server's process for each."""
    p99: float
    """Milliseconds."""


@dataclass
class Site:
    """One server."""

    folder: Path
    settings: str
    database: str
    """A URL."""

    def __post_init__(self) -> None:
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.key, self.traces = "none", self.folder / "traces"
        self.folder.mkdir()

    def environment(self) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **keep,
            "ENV_FILE": os.devnull,
            "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40,
            "DEBUG": "0",
            "HTTPS": "0",
            "ALLOWED_HOSTS": "127.0.0.1",
            "DATA_DIR": str(self.folder / "data"),
            "DJANGO_SETTINGS_MODULE": self.settings,
            "DATABASE_URL": self.database,
            "LOG_LEVEL": "WARNING",
            "API_REQUESTS_PER_MINUTE": "1000000",
            "PYTHONPATH": str(ROOT),
        }

    def shell(self, program: str) -> list[str]:
        command = [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "-c", program]
        run = subprocess.run(command, env=self.environment(), check=True, capture_output=True, text=True)
        return run.stdout.split()

    def start(self) -> None:
        command = [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(self.port)]
        errors = (self.folder / "errors").open("ab")
        self.process = subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=errors)
        _wait(f"http://127.0.0.1:{self.port}/healthz", self.process)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def load(self, name: str, connections: int, seconds: float) -> Figures:
        assert self.process is not None
        process = psutil.Process(self.process.pid)
        before = process.cpu_times()
        taken = self.send(name, connections, seconds)
        after = process.cpu_times()
        cpu = (after.user + after.system - before.user - before.system) / max(len(taken.latencies), 1)
        return Figures(taken.rate, cpu * 1000, taken.p99)

    def send(self, name: str, connections: int, seconds: float) -> Taken:
        taken = _child("send", self.port, self.key, self.traces, name, connections, seconds)
        self.acknowledged += [f"{trace}/{rater}" for trace, rater in taken.acknowledged]
        self.refused += taken.refused
        return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--skip-sqlite", action="store_true")
    options = parser.parse_args()
    passed = True
    print(
        "| database | connections | ratings a second: bare, database alone, Ratchet | CPU ms: bare, Ratchet | p99 ms |"
    )
    print("|---|---|---|---|---|")
    if not options.skip_sqlite:
        with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder:
            passed &= compare("SQLite", Path(folder), "sqlite:///{}/db.sqlite3", options)
    if options.postgres:
        with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder, databases(options.postgres) as url:
            passed &= compare("PostgreSQL", Path(folder), url, options)
    print("passed" if passed else "failed")
    return 0 if passed else 1


def compare(title: str, folder: Path, url: str, options: argparse.Namespace) -> bool:
    """``url`` has a place for the site's folder, or its name."""
    with ExitStack() as stack:
        bare = Site(folder / "bare", "benchmarks.ratings_site.settings", url.format(folder / "bare"))
        ratchet = Site(folder / "ratchet", "backend.settings", url.format(folder / "ratchet"))
        bare.shell(BARE)
        ratchet.key, *traces = ratchet.shell(RATCHET)
        for site in (bare, ratchet):
            site.traces.write_text("\n".join(traces))
            stack.callback(site.stop)
            site.start()
            site.load("warm-up", 8, 1.5)
        judged = [measure(title, connections, bare, ratchet, options) for connections in options.connections]
        passed = survive(title, ratchet) and all(judged)
        print_refused(bare, ratchet)
        return passed and not ratchet.refused


def measure(title: str, connections: int, bare: Site, ratchet: Site, options: argparse.Namespace) -> bool:
    seen: dict[str, list[Figures]] = {"bare view": [], "database alone": [], "Ratchet": []}
    for number in range(options.rounds):
        name = f"{connections}-{number}"
        seen["bare view"].append(bare.load(name, connections, options.seconds))
        alone = _child("commit", bare.database.removeprefix("sqlite:///"), connections, options.seconds)
        seen["database alone"].append(Figures(alone.rate, float("nan"), alone.p99))
        seen["Ratchet"].append(ratchet.load(name, connections, options.seconds))
    middle = [Figures(*map(statistics.median, zip(*rows, strict=True))) for rows in seen.values()]
    return _judge(f"{title} | {connections}", *middle)


def _judge(title: str, bare: Figures, alone: Figures, ratchet: Figures) -> bool:
    rate = ratchet.rate / min(bare.rate, alone.rate)
    cpu, p99 = ratchet.cpu / bare.cpu, ratchet.p99 / bare.p99
    passed = rate >= LEAST_RATE and cpu <= MOST_CPU and p99 <= MOST_P99
    rates = f"{bare.rate:.0f}, {alone.rate:.0f}, {ratchet.rate:.0f} ({rate:.2f} of the smaller)"
    costs = f"{bare.cpu:.2f}, {ratchet.cpu:.2f} ({cpu:.1f} times) | {bare.p99:.0f}, {ratchet.p99:.0f} ({p99:.1f} times)"
    print(f"| {title} | {rates} | {costs} |{'' if passed else ' OUTSIDE the bars'}", flush=True)
    return passed


def survive(title: str, site: Site) -> bool:
    """Whether all that was answered is stored, after a SIGKILL under load."""
    assert site.process is not None
    victim = site.process
    timer = subprocess.Popen([sys.executable, "-c", f"import os,time; time.sleep(2.5); os.kill({victim.pid}, 9)"])
    site.send("killed", 8, 10)
    timer.wait()
    victim.wait()
    site.process = None
    stored = set(site.shell(COUNT))
    lost = [rating for rating in site.acknowledged if rating not in stored]
    print(f"| {title}, answered until `kill -9`, and lost | {len(site.acknowledged)}, {len(lost)} | | | |")
    return not lost


def print_refused(*sites: Site) -> None:
    for site in sites:
        for line in sorted(set(site.refused))[:5]:
            print(f"  {site.settings}: {len(site.refused)} answers were not 201: {line[:300]}")


# --- processes and databases -------------------------------------------------------------------------------------------


def _child(*arguments: object) -> Taken:
    command = [sys.executable, LOAD, *map(str, arguments)]
    return Taken(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


@contextmanager
def databases(url: str) -> Iterator[str]:
    """The URL of two new databases, with a place for what tells them apart."""
    import psycopg

    base, _, name = url.rpartition("/")
    names = {kind: f"{name}_benchmark_{kind}" for kind in ("bare", "ratchet")}
    with psycopg.connect(url, autocommit=True) as connection:
        for database in names.values():
            connection.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{database}"')
        try:
            yield f"{base}/{name}_benchmark_{{0.name}}"
        finally:
            for database in names.values():
                connection.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=10)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{url} does not answer: look at the file errors")


if __name__ == "__main__":
    sys.exit(main())
