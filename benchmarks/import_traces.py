"""Rows per second and peak memory of ``import_traces`` with a large file of labelled answers (TRL's KTO form).

.venv/bin/python benchmarks/import_traces.py [--lines 1000000] [--postgres URL] [--dry-run]

Writes the file, imports it into a fresh SQLite database, and with ``--postgres`` into a fresh one on that server (dropped
afterwards), once with a tenth of the lines and once with all: the memory must not grow with the file. Fails when it does,
or when it passes 300 MB.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "ratchet_benchmark_import"
MOST_MEGABYTES, MOST_GROWTH = 300, 1.15
WORDS = (
    "parcel",
    "order",
    "refund",
    "label",
    "courier",
    "depot",
    "invoice",
    "address",
    "noon",
    "please",
    "track",
    "late",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL", help="of a server where a database may be created")
    parser.add_argument("--dry-run", action="store_true", help="measure import_traces --dry-run")
    options = parser.parse_args()
    passed = True
    with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder:
        files = [write_answers(Path(folder, f"{lines}.jsonl"), lines) for lines in (options.lines // 10, options.lines)]
        for server in filter(None, ("sqlite", options.postgres)):
            peaks = [_measure(file, server, Path(folder, "data"), options.dry_run) for file in files]
            growth = peaks[1] / peaks[0]
            passed &= peaks[1] <= MOST_MEGABYTES and growth <= MOST_GROWTH
            print(f"  ten times the lines take {growth:.2f} times the memory", flush=True)
    print("passed" if passed else f"failed: more than {MOST_MEGABYTES} MB, or {MOST_GROWTH} times as much")
    return 0 if passed else 1


def write_answers(path: Path, lines: int) -> Path:
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            question = f"{number // 4}: {' '.join(chance.choices(WORDS, k=20))}?"
            row = {
                "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}],
                "completion": [{"role": "assistant", "content": f"{number}: {' '.join(chance.choices(WORDS, k=60))}."}],
                "label": chance.random() < 0.6,
            }
            file.write(json.dumps(row) + "\n")
    return path


def _measure(file: Path, server: str, data: Path, dry_run: bool) -> float:
    """Peak memory in MB."""
    data.mkdir(exist_ok=True)
    for old in data.glob("db.sqlite3*"):
        old.unlink()
    with _database(server) as url:
        environment = {
            **os.environ,
            "DATA_DIR": str(data),
            "DATABASE_URL": url,
            "SECRET_KEY": "benchmark-" * 6,
            "DEBUG": "0",
            "ENV_FILE": os.devnull,
            "ALLOWED_HOSTS": "localhost",
        }
        manage = [sys.executable, str(ROOT / "manage.py")]
        subprocess.run([*manage, "migrate", "-v0"], env=environment, check=True)
        command = [*manage, "import_traces", "--format", "trl", "--agent", "benchmark", str(file), "--json", "-v0"]
        return _import([*command, *(["--dry-run"] if dry_run else [])], environment)


def _import(command: list[str], environment: dict[str, str]) -> float:
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    document = json.loads(process.stdout.read())
    _, _, used = os.wait4(process.pid, 0)
    seconds, peak = time.monotonic() - start, used.ru_maxrss / 1024
    answers, ratings = document["traces"]["imported"], document["feedback"]["imported"]
    print(
        f"{urlsplit(environment['DATABASE_URL']).scheme or 'sqlite'}: {answers:,} answers and {ratings:,} ratings in "
        f"{seconds:.0f} s ({used.ru_utime + used.ru_stime:.0f} s of CPU): {answers / seconds:,.0f} answers per second, "
        f"{peak:.0f} MB",
        flush=True,
    )
    return peak


@contextmanager
def _database(server: str) -> Iterator[str]:
    if server == "sqlite":
        yield ""
        return
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.execute(f"CREATE DATABASE {DATABASE}")
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{DATABASE}"))
        finally:
            connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


if __name__ == "__main__":
    sys.exit(main())
