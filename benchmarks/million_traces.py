"""How long commands, pages and API calls take beside a million traces and a hundred thousand ratings.

.venv/bin/python benchmarks/million_traces.py [--traces 1000000] [--ratings 100000] [--postgres URL] [--page /address/ …]

Fills a fresh SQLite database, and with ``--postgres`` a fresh one on that server (dropped afterwards). Prints what each
address and command took: the first call, the best of the next three, and the processor time of this process in it (on a
busy machine the clock says more about the others). Fails when a best one is over a second.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parent.parent
AGENT, SECOND = "benchmark", "small"
CHUNK = 5000
SLOWEST_SECONDS = 1.0
ANSWERS_PER_PROMPT = 4
DATABASE = "ratchet_benchmark"

PAGES = (
    "/",
    "/traces/",
    "/traces/?agent=benchmark",
    "/traces/?agent=benchmark&label=unlabelled",
    "/traces/?agent=benchmark&label=good",
    "/traces/of/benchmark/",
    "/traces/of/benchmark/label/",
    "/rate/",
    "/rate/benchmark/",
    "/admin/",
    "/admin/rl/trace/",
    "/admin/rl/trace/?p=2",
    "/admin/rl/trace/?agent__id__exact={agent}",
    "/admin/rl/feedback/",
    "/admin/rl/feedback/?is_current__exact=1&kind__exact=rating",
    "/admin/rl/feedback/?q=device:7",
    "/traces/{trace}/",
    "/admin/rl/trace/{trace}/change/",
    "/api/v1/traces/{trace}/",
    "/admin/rl/trainingset/",
    "/admin/rl/agent/",
    "/admin/rl/agent/{agent}/change/",
    "/api/v1/traces/",
    "/api/v1/traces/?agent=benchmark",
    "/api/v1/feedback/",
    "/api/v1/feedback/?agent=benchmark",
    "/api/training/stats/?agentType=benchmark",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--ratings", type=int, default=100_000)
    parser.add_argument("--postgres", metavar="URL", help="of a server where a database may be created")
    parser.add_argument("--page", action="append", default=[], help="a further address to ask for")
    parser.add_argument("--data-dir", help="keep the SQLite database here, and use the one that is here")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return measure(options)
    results = [_on_sqlite(options)]
    if options.postgres:
        results.append(_on_postgres(options))
    return max(results)


# --- the databases -----------------------------------------------------------------------------------------------------


def _on_sqlite(options: argparse.Namespace) -> int:
    print("SQLite", flush=True)
    if options.data_dir:
        Path(options.data_dir).mkdir(parents=True, exist_ok=True)
        return _inside(options, options.data_dir, "")
    with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder:
        return _inside(options, folder, "")


def _on_postgres(options: argparse.Namespace) -> int:
    import psycopg

    print("PostgreSQL", flush=True)
    address = urlsplit(options.postgres)
    with psycopg.connect(options.postgres, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        try:
            with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder:
                return _inside(options, folder, urlunsplit(address._replace(path=f"/{DATABASE}")))
        finally:
            server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")


def _inside(options: argparse.Namespace, folder: str, database: str) -> int:
    """In a process of its own: Django is set up once in a process, for one database."""
    environment = {
        **os.environ,
        "DATA_DIR": folder,
        "DATABASE_URL": database,
        "DEBUG": "0",
        "SECRET_KEY": "benchmark-" * 6,
        "ENV_FILE": os.devnull,
        "ALLOWED_HOSTS": "testserver",
        "DJANGO_SETTINGS_MODULE": "backend.settings",
    }
    command = [sys.executable, __file__, "--inside", "--traces", str(options.traces), "--ratings", str(options.ratings)]
    command += [part for page in options.page for part in ("--page", page)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


# --- filling -----------------------------------------------------------------------------------------------------------


def fill(traces: int, ratings: int) -> int:
    """The id of the large agent."""
    from django.core.management import call_command
    from django.db import connection

    from rl.models import Agent, Feedback, Trace

    call_command("migrate", verbosity=0)
    if agent := Agent.objects.filter(name=AGENT).first():
        return agent.pk
    agent = Agent.objects.create(name=AGENT)
    Agent.objects.create(name=SECOND)
    rng = random.Random(1)
    answers = _answers(agent, traces, rng)
    share = ratings / traces
    while chunk := list(islice(answers, CHUNK)):
        Trace.objects.bulk_create(chunk)
        prompts = [chunk[start : start + ANSWERS_PER_PROMPT] for start in range(0, len(chunk), ANSWERS_PER_PROMPT)]
        rated_traces = [trace for prompt in prompts if rng.random() < share for trace in prompt]
        Feedback.objects.bulk_create(_rating(trace, rng) for trace in rated_traces)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:  # what it does by itself within minutes
            cursor.execute("VACUUM ANALYZE")
    return agent.pk


def _answers(agent: Any, count: int, rng: random.Random) -> Iterator[Any]:
    from rl.models import Trace, prompt_key

    prompt: list[Any] = []
    key = ""
    start = datetime.now(UTC) - timedelta(days=90)
    for number in range(count):
        if number % ANSWERS_PER_PROMPT == 0:
            prompt = [{"role": "user", "content": f"Question {number}: {_text(rng, 20)}?"}]
            key = prompt_key(prompt)
        yield Trace(
            agent=agent,
            prompt=prompt,
            prompt_key=key,
            response=_text(rng, rng.randint(10, 60)),
            external_id=f"answer-{number}",
            session_id=f"session-{number // 10}",
            tokens_in=40,
            tokens_out=80,
            reward=rng.choice((None, 0.1, 0.5, 0.7, 0.9)),
            reward_pending=number % 50 == 0,
            tool_calls=[{"tool_name": "search", "arguments": {"q": "parcel"}, "result": "found", "success": True}],
            occurred_at=start + timedelta(seconds=number),
        )


def _rating(trace: Any, rng: random.Random) -> Any:
    from rl.models import Feedback

    value = float(rng.random() < 0.5)
    return Feedback(
        agent_id=trace.agent_id,
        trace=trace,
        kind="rating",
        scale="thumb",
        rater=f"device:{rng.randint(1, 50)}",
        raw_value=value,
        value=value,
    )


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(("parcel", "order", "refund", "label", "courier", "depot", "invoice", "noon"), k=words))


# --- measuring ---------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()
    start = time.perf_counter()
    agent = fill(options.traces, options.ratings)
    print(f"{'filled':<62}{time.perf_counter() - start:>8.1f} s", flush=True)
    slow = [name for name, ask in _questions(agent, options.page) if not _is_quick(name, ask)]
    print("all within a second" if not slow else f"over {SLOWEST_SECONDS} s: {', '.join(slow)}", flush=True)
    return bool(slow)


def _questions(agent: int, more: list[str]) -> Iterator[tuple[str, Callable[[], str]]]:
    from django.contrib.auth.models import User
    from django.test import Client

    from rl.models import ApiKey, Trace

    boss, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    client = Client(headers={"Authorization": f"Bearer {ApiKey.create(name='benchmark', kind='secret')[1]}"})
    client.force_login(boss)
    yield "training_plan", lambda: _command("training_plan", "--agent", AGENT)
    yield "training_stats", lambda: _command("training_stats", "--agent", AGENT)
    trace = Trace.objects.filter(agent=agent, feedback__isnull=False).values_list("pk", flat=True)[0]
    for page in (*PAGES, *more):
        address = page.format(agent=agent, trace=trace)
        yield address, lambda address=address: _page(client, address)  # type: ignore[misc]


def _page(client: Any, address: str) -> str:
    answer = client.get(address, secure=True, follow=True)
    return "" if answer.status_code == 200 else f"answered {answer.status_code}"


def _command(*words: str) -> str:
    from io import StringIO

    from django.core.management import call_command

    out = StringIO()
    call_command(*words, "--json", stdout=out, stderr=StringIO())
    return "" if json.loads(out.getvalue()) else "said nothing"


def _is_quick(name: str, ask: Callable[[], str]) -> bool:
    taken, problem = [], ""
    for _ in range(4):
        start = time.perf_counter(), time.process_time()
        problem = ask()
        taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    best, processor = min(taken[1:])
    print(f"{name:<62}{taken[0][0]:>8.3f} s first{best:>8.3f} s best{processor:>8.3f} s cpu  {problem}", flush=True)
    return best < SLOWEST_SECONDS and not problem


if __name__ == "__main__":
    sys.exit(main())
