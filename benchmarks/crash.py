"""Does Ratchet keep what it promised while its processes are killed and its disk is full?

.venv/bin/python benchmarks/crash.py --minutes 30 --seed 1 [--postgres]

Starts a site in a folder of its own: the web server with two workers, the queue, a model server, and from two minutes on
also llama.cpp and trainings; with --postgres a PostgreSQL of its own, else SQLite. Clients send answers and ratings to
the API and questions to the gateway, and keep a ledger of what was acknowledged. Meanwhile processes are killed (kill -9)
and the disk is full for seconds; what died is started again after a second, as a service manager does. What happens when
is drawn from the seed. In the end everything settles, and the ledger is compared with what is stored.

Needs root for the disk that is full (a tmpfs); without it that fault is left out. Fails when a promise was broken.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from crash_faults import Faults, plan
from crash_load import Load
from crash_postgres import Cluster
from crash_services import Probe, Service, Services, is_ready, processes_of, services_of, until
from crash_site import TRAINED, Site, small_disk

TRAINS_FROM_MINUTES = 2.0
SETTLE_SECONDS = 600.0
START_SECONDS = 600.0
ORPHAN_SECONDS = 30.0
QUEUE_WORKS = """
from django_q.tasks import async_task, result
assert result(async_task("rl.tasks.deliver_answers"), wait=60_000) is not None
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of its own, which is killed too")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ratchet-crash-"))
    folder.chmod(0o711)  # PostgreSQL runs as somebody else
    violations = run(options, folder)
    for first, number in alike(violations):
        print(f"VIOLATION, {number} times: {first}")
    if violations:
        print(f"{len(violations)} violations; the logs and the ledger are in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("no violation")
    return 0


def run(options: argparse.Namespace, folder: Path) -> list[str]:
    seconds = options.minutes * 60
    with small_disk(folder / "disk") as can_fill, database(options.postgres, folder / "disk") as (url, server):
        site = Site(folder / "disk", url, trains=options.minutes >= TRAINS_FROM_MINUTES)
        site.data.mkdir(mode=0o700)
        _say("preparing the site")
        site.prepare()
        faults = plan(options.seed, seconds, disk=can_fill, trains=site.trains, postgres=server is not None)
        services = services_of(site, folder, server)
        try:
            return crash(site, services, faults, options.seed, seconds, folder / "ledger.json")
        finally:
            services.stop()
            for process in processes_of(site):
                process.kill()


def crash(site: Site, services: Services, faults: list, seed: int, seconds: float, ledger: Path) -> list[str]:
    services.watch()
    if not until(lambda: is_ready(site.url), START_SECONDS):
        return ["the site did not start"]
    load, probe, worker = Load(site, seed), Probe(site.url), Faults(site, services)
    probe.start()
    load.start()
    started = time.monotonic()
    worker.work(faults, _say)
    time.sleep(max(0.0, started + seconds - time.monotonic()))
    load.stop()
    probe.stop()
    violations = [*load.ledger.wrong, *settle(site)]
    load.ledger.write(ledger)
    report = site.check(ledger)
    print_figures(report["counts"], worker, probe, load, services)
    return [*violations, *report["violations"], *leftovers(site, services)]


def settle(site: Site) -> list[str]:
    """Waits until nothing waits any more."""
    _say("settling")
    violations = []
    if not until(lambda: is_ready(site.url), START_SECONDS):
        violations.append("the site does not come back")
    pending = site.data / "gateway" / "pending"
    if not until(lambda: not list(pending.glob("*.json")), SETTLE_SECONDS):
        violations.append("answers of the gateway wait for ever")
    if site.trains and not until(lambda: not site.active_runs(), SETTLE_SECONDS, every=3):
        violations.append("a run does not end")
    process = subprocess.run(
        site.command("shell", "--no-imports", "-c", QUEUE_WORKS), env=site.environment, capture_output=True
    )
    if process.returncode:
        violations.append("the queue does not go on by itself")
    return violations


def leftovers(site: Site, services: Services) -> list[str]:
    """Processes that nobody looks after: beside the services, before they are stopped and afterwards."""
    _say("stopping")
    services.stop(but="postgres")
    if site.trains:
        site.manage("deploy_model", "--agent", TRAINED, "--stop", "--version", site.version)
    until(lambda: not processes_of(site), ORPHAN_SECONDS)
    return [
        f"process {process.pid} was left over: {' '.join(_command(process))[:200]}" for process in processes_of(site)
    ]


def alike(violations: list[str]) -> list[tuple[str, int]]:
    """The first of each kind, and how many there are: two of a kind differ in ids and numbers only."""
    kinds: dict[str, list[str]] = {}
    for violation in violations:
        kinds.setdefault(re.sub(r"[0-9a-f-]{8,}|\d+", "#", violation), []).append(violation)
    return [(examples[0], len(examples)) for examples in kinds.values()]


def print_figures(counts: dict[str, int], worker: Faults, probe: Probe, load: Load, services: Services) -> None:
    rows: dict[str, object] = {**counts}
    rows |= {
        kind + (": times" if kind == "full disk" else ": killed"): number
        for kind, number in sorted(worker.done.items())
    }
    rows |= {f"{kind}: was not there to be killed": number for kind, number in sorted(worker.missed.items())}
    rows |= {f"{row.name}: starts": row.starts for row in services.rows}
    rows |= {"not ready, seconds in all": f"{probe.seconds:.1f}", "not ready, longest": f"{probe.longest:.1f}"}
    print("| | |\n|---|---|", *(f"| {name} | {number} |" for name, number in rows.items()), sep="\n")
    print("answers to clients:", ", ".join(f"{name} {number}" for name, number in sorted(load.ledger.statuses.items())))


@contextmanager
def database(own: bool, folder: Path) -> Iterator[tuple[str, Service | None]]:
    """URL and server; nothing for SQLite."""
    if not own:
        yield "", None
        return
    cluster = Cluster(folder / "postgres")
    cluster.create()
    server = Service("postgres", cluster.command, {"PATH": "/usr/bin:/bin"}, folder.parent / "postgres.log")
    server.start()
    if not until(cluster.create_database, START_SECONDS):
        raise SystemExit(f"PostgreSQL did not start; see {server.log}")
    try:
        yield cluster.url, server
    finally:
        server.stop()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
