"""How long ``train_dpo --dry-run`` takes, and how much memory its process needs, with many ratings in SQLite.

.venv/bin/python benchmarks/dry_run.py [--ratings 100000] [--answers-per-prompt 8]
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
AGENT = "benchmark"
CHUNK = 2000
MOST_SECONDS, MOST_MEGABYTES = 20, 400
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
    parser.add_argument("--ratings", type=int, default=100_000)
    parser.add_argument("--answers-per-prompt", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder:
        environment = {"DATA_DIR": folder, "DATABASE_URL": "", "DEBUG": "1", "SECRET_KEY": "benchmark-" * 6}
        os.environ.update(environment)
        start = time.perf_counter()
        fill(options.ratings, options.answers_per_prompt)
        filled = time.perf_counter() - start
        seconds, megabytes, document = measure()
    data = document["data"]
    rows: dict[str, Any] = {
        "ratings": f"{data['ratings_read']:,}",
        "prompts": f"{data['prompts_read']:,}",
        "pairs, train + held out": f"{data['train_rows']:,} + {data['heldout_rows']:,}",
        "filling the database": f"{filled:.1f} s",
        "dry run": f"{seconds:.1f} s (limit {MOST_SECONDS})",
        "peak memory": f"{megabytes:.0f} MB (limit {MOST_MEGABYTES})",
    }
    for name, value in rows.items():
        print(f"{name:<26}{value}")
    return 0 if seconds < MOST_SECONDS and megabytes < MOST_MEGABYTES else 1


def fill(ratings: int, answers_per_prompt: int) -> None:
    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "backend.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from rl.models import Agent, Feedback, Trace

    call_command("migrate", verbosity=0)
    agent = Agent.objects.create(name=AGENT)
    rng = random.Random(1)
    made = _answers(agent, ratings, answers_per_prompt, rng)
    while traces := list(islice(made, CHUNK)):
        Trace.objects.bulk_create(traces)
        Feedback.objects.bulk_create(_rating(trace, rng) for trace in traces)


def _answers(agent: Any, count: int, per_prompt: int, rng: random.Random) -> Iterator[Any]:
    from rl.models import Trace, prompt_key

    prompt: list[Any] = []
    for number in range(count):
        if number % per_prompt == 0:
            prompt = [{"role": "user", "content": f"Question {number}: {_text(rng, 40)}?"}]
        yield Trace(
            agent=agent, prompt=prompt, prompt_key=prompt_key(prompt), response=_text(rng, rng.randint(20, 120))
        )


def _rating(trace: Any, rng: random.Random) -> Any:
    from rl.models import Feedback

    value = float(rng.random() < 0.5)
    return Feedback(
        agent_id=trace.agent_id,
        trace=trace,
        kind="rating",
        scale="thumb",
        rater="device:1",
        raw_value=value,
        value=value,
    )


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def measure() -> tuple[float, float, dict[str, Any]]:
    """Seconds, the largest resident set in megabytes, and what the command printed."""
    command = [sys.executable, str(ROOT / "manage.py"), "train_dpo", "--agent", AGENT, "--dry-run", "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"the dry run failed with {done.returncode}: {done.stderr}")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
