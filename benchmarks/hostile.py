"""Does anything that is stored or asked hold the site? Ten attackers, and eight honest users who are measured.

.venv/bin/python benchmarks/hostile.py --minutes 60 --seed 1 [--patience 2]

Starts a site in a folder of its own: the web server with two workers, the queue, a model server and, from two minutes on,
llama.cpp. Attackers with an app's key that leaked, pages' keys, an invitation and an account store and ask what is slow to
read (benchmarks/hostile_attacks.py), from addresses of their own. Beside them an app stores answers, pages rate them, people
rate, read and sign in, and somebody asks the gateway (benchmarks/hostile_honest.py). Fails where an honest request took
longer than ``--patience`` seconds or was refused, where something acknowledged is lost, and where the site answered 500.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from crash import START_SECONDS, alike, settle
from crash_services import Probe, Sampler, is_ready, processes_of, services_of, until
from crash_site import ROOT, TRAINED
from hostile_honest import Honest
from hostile_site import PAGES, PEOPLE, SHOP, HostileSite

WITH_LLAMA_FROM_MINUTES = 2.0
CALM_SECONDS = 3.0
"""Honest users alone, before the attack: all have signed in."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=2.0, help="seconds that an honest request may take")
    parser.add_argument("--calm", action="store_true", help="without the attackers, to compare")
    parser.add_argument("--eager", action="store_true", help="attackers do not wait for an idle processor")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ratchet-hostile-"))
    violations = run(options, folder)
    for first, number in alike(violations):
        print(f"VIOLATION, {number} times: {first}")
    if violations:
        print(f"{len(violations)} violations; the logs are in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("no violation")
    return 0


def run(options: argparse.Namespace, folder: Path) -> list[str]:
    site = HostileSite(folder, "", trains=options.minutes >= WITH_LLAMA_FROM_MINUTES)
    site.data.mkdir(mode=0o700)
    site.prepare()
    services = services_of(site, folder, None)
    try:
        services.watch()
        if not until(lambda: is_ready(site.url), START_SECONDS):
            return ["the site did not start"]
        return besiege(site, options, folder)
    finally:
        services.stop()
        if site.trains:
            site.manage("deploy_model", "--agent", TRAINED, "--stop", "--version", site.version)
        for process in processes_of(site):
            process.kill()


def besiege(site: HostileSite, options: argparse.Namespace, folder: Path) -> list[str]:
    honest, probe, memory = Honest(site), Probe(site.url), Memory(site)
    probe.start()
    memory.start()
    honest.start()
    time.sleep(CALM_SECONDS)
    attacks = {} if options.calm else attack(site, options, folder)
    if options.calm:
        time.sleep(options.minutes * 60)
    honest.stop()
    probe.stop()
    memory.stop()
    ledger = folder / "ledger.json"
    honest.ledger().write(ledger)
    violations = [*(problem for user in honest.users for problem in user.problems), *settle(site)]
    violations += [f"{name} {number} times" for name, number in attacks.items() if name.endswith(": 500")]
    report = site.check(ledger)
    print_figures(honest, attacks, report["counts"], probe, memory, site)
    return [*violations, *report["violations"], *too_slow(honest, options.patience)]


def attack(site: HostileSite, options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """How often each attack was answered how."""
    where = folder / "where.json"
    known = {"url": site.url, "agent": TRAINED, "models": site.models, "pages": PAGES, "shop": SHOP}
    where.write_text(json.dumps({**known, "secrets": site.secrets, "mallory": PEOPLE["mallory"]}))
    program = str(ROOT / "benchmarks/hostile_attacks.py")
    command = [sys.executable, program, str(where), str(options.minutes * 60), str(options.seed)]
    command += ["eager"] * options.eager
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        raise SystemExit(f"the attackers failed: {done.stderr[-2000:]}")
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def too_slow(honest: Honest, patience: float) -> list[str]:
    return [
        f"{what} took {seconds:.1f} s"
        for what, values in honest.seconds().items()
        for seconds in values
        if seconds > patience
    ]


@dataclass
class Memory(Sampler):
    """The most that all processes of the site held together."""

    site: HostileSite
    most: int = 0

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            self.most = max(self.most, sum(map(_resident, processes_of(self.site))))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def print_figures(
    honest: Honest, attacks: dict[str, int], counts: dict[str, Any], probe: Probe, memory: Memory, site: HostileSite
) -> None:
    print("| honest request | times | seconds: median | 99 % under | longest |\n|---|---|---|---|---|")
    for what, values in sorted(honest.seconds().items()):
        middle, high = statistics.median(values), sorted(values)[int(len(values) * 0.99)]
        print(f"| {what} | {len(values)} | {middle:.2f} | {high:.2f} | {max(values):.2f} |")
    for name, number in sorted(attacks.items()):
        print(f"attack: {name:<60} {number:>7}")
    database = sum(path.stat().st_size for path in site.data.glob("*.sqlite3*")) / 1e6
    rows = {
        "told to come again": sum(user.again for user in honest.users),
        "attacks": sum(attacks.values()),
        **counts,
        "not ready, seconds in all, and longest": f"{probe.seconds:.1f}, {probe.longest:.1f}",
        "memory of all processes, MB at most": f"{memory.most / 1e6:.0f}",
        "database, MB": f"{database:.1f}",
    }
    print("", *(f"{name}: {number}" for name, number in rows.items()), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
