"""How long the server takes for every page, with a year's data: a million answers, three million ratings, a hundred agents,
of which one has nine tenths of them and sixty have none.

    .venv/bin/python benchmarks/pages.py [--json] [--traces 1000000] [--ratings 3000000] [--page /address/ …]
    .venv/bin/python benchmarks/pages.py --postgres URL --json

Fills a fresh SQLite database, or with ``--postgres`` a fresh one on that server: ten thousand answers by Django, and the
database copies them under other ids, keys and times. ``--keep FOLDER`` leaves the database there (on the server, as
``ratchet_pages``) and takes it up again. Each address is asked for four times in this process, through all of Django;
``ms`` is the best of the last three, ``statements`` how many the database was asked.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

ROOT: Final = Path(__file__).resolve().parent.parent
LARGE, DATABASE = "acme", "ratchet_pages"
AGENTS, IDLE, SHARE = 100, 60, 0.9
"""IDLE agents of all have nothing; the large one has SHARE of everything."""
COPIED = 10_000
"""Answers that Django writes."""
DAYS, VERSIONS = 365, 5
ASKED = 4
PAGES: Final = (
    *("/", "/agents/", "/agents/acme/", "/agents/agent-7/", "/agents/agent-70/", "/versions/acme/v1/"),
    *("/traces/", "/traces/?agent=acme", "/traces/?agent=agent-7", "/traces/?agent=acme&label=unlabelled"),
    *("/traces/?agent=acme&label=good", "/traces/?find=parcel", "/traces/?agent=acme&find=parcel"),
    *("/traces/?find=zebra", "/traces/{trace}/", "/traces/of/acme/", "/traces/of/agent-7/", "/traces/of/acme/label/"),
    *("/try/", "/try/acme/", "/rate/", "/rate/acme/", "/rate/acme/answers/raters/", "/rate/held-back/"),
    *("/runs/", "/runs/new/", "/runs/new/?agent=acme", "/runs/{run}/", "/experiments/", "/experiments/versions/acme/"),
    *("/admin/", "/admin/rl/trace/", "/admin/rl/trace/?p=2", "/admin/rl/trace/?agent__id__exact={agent}"),
    *("/admin/rl/trace/?q=parcel", "/admin/rl/trace/{trace}/change/", "/admin/rl/feedback/"),
    *("/admin/rl/feedback/?is_current__exact=1&kind__exact=rating", "/admin/rl/feedback/?q=device:7"),
    *("/admin/rl/agent/", "/admin/rl/agent/{agent}/change/", "/admin/rl/trainingset/", "/admin/rl/trainingrun/"),
    *("/admin/rl/modelversion/", "/admin/rl/evaluation/", "/admin/rl/deployment/", "/admin/rl/apikey/"),
    *("/api/v1/traces/", "/api/v1/traces/?agent=acme", "/api/v1/traces/{trace}/", "/api/v1/feedback/"),
    *("/api/v1/feedback/?agent=acme", "/api/training/stats/?agentType=acme", "/api/docs/"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--ratings", type=int, default=3_000_000)
    parser.add_argument("--postgres", metavar="URL", help="of a server where a database may be created")
    parser.add_argument("--page", action="append", default=[], help="only this address; may be given several times")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the database, and use the one that is here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return measure(options)
    with tempfile.TemporaryDirectory(prefix="ratchet-pages-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return _on_postgres(options, folder) if options.postgres else _inside(folder, "")


def _on_postgres(options: argparse.Namespace, folder: Path) -> int:
    import psycopg

    address = urlsplit(options.postgres)
    with psycopg.connect(options.postgres, autocommit=True) as server:
        exists = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if not (options.keep and exists):
            server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
            server.execute(f"CREATE DATABASE {DATABASE}")
        try:
            return _inside(folder, urlunsplit(address._replace(path=f"/{DATABASE}")))
        finally:
            if not options.keep:
                server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")


def _inside(folder: Path, database: str) -> int:
    """In a process of its own: Django is set up once in a process, for one database."""
    environment = {
        **os.environ,
        "DATA_DIR": str(folder),
        "DATABASE_URL": database,
        "DEBUG": "0",
        "SECRET_KEY": "benchmark-" * 6,
        "ENV_FILE": os.devnull,
        "ALLOWED_HOSTS": "testserver",
        "DJANGO_SETTINGS_MODULE": "backend.settings",
    }
    return subprocess.run([sys.executable, *sys.argv, "--inside"], env=environment, check=False).returncode


# --- filling -----------------------------------------------------------------------------------------------------------


def fill(traces: int, ratings: int) -> Any:
    """The large agent."""
    from django.core.management import call_command
    from django.db import connection

    from rl.models import Agent

    call_command("migrate", verbosity=0)
    if agent := Agent.objects.filter(name=LARGE).first():
        return agent
    rng = random.Random(1)
    agent = Agent.objects.create(name=LARGE)
    others = [Agent.objects.create(name=f"agent-{number}") for number in range(1, AGENTS)]
    _write_versions(agent)
    since = datetime.now(UTC)
    _write_answers(agent, others[: AGENTS - IDLE - 1], round(COPIED * ratings / traces), rng)
    for number in range(1, round(traces / COPIED)):
        _copy(number, since)
    with connection.cursor() as cursor:  # as PostgreSQL does by itself within minutes, and SQLite when Ratchet asks it
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    return agent


def _write_versions(agent: Any) -> None:
    from rl.models import Deployment, Evaluation, ModelVersion, TrainingRun, TrainingSet

    rows = {"train_rows": 100, "heldout_rows": 20, "feedback_count": 120, "val_split": 0.2}
    figures = {"pairs": 40, "prompts": 40, "accuracy": 0.7, "base_accuracy": 0.5, "against_accuracy": 0.6}
    report = {"reason": "The new version is better.", "guards": {"rails": []}}
    for number in range(1, VERSIONS + 1):
        learned = TrainingSet.objects.create(agent=agent, method="mpo", content_hash=f"{number:064}", **rows)
        version = ModelVersion.objects.create(
            agent=agent, name=f"v{number}", base_model="smollm2", feedback_count=rows["feedback_count"]
        )
        TrainingRun.objects.create(agent=agent, method="mpo", state="succeeded", training_set=learned, version=version)
        Evaluation.objects.create(version=version, training_set=learned, verdict="promote", report=report, **figures)
    Deployment.objects.create(agent=agent, version=version, alias="champion")


def _write_answers(agent: Any, others: list[Any], ratings: int, rng: random.Random) -> None:
    from rl.models import Feedback, Trace, TrainingSet

    start, learned = datetime.now(UTC) - timedelta(days=1), TrainingSet.objects.filter(agent=agent).first()
    whose = [agent if rng.random() < SHARE else rng.choice(others) for _ in range(COPIED)]
    written = [_answer(each, number, start, rng) for number, each in enumerate(whose)]
    Trace.objects.bulk_create(written, batch_size=1000)
    rated = [(trace, number) for number in range(-(-ratings // COPIED)) for trace in written][:ratings]
    events = [_rating(trace, number, rng, learned if rng.random() < 0.9 else None) for trace, number in rated]
    Feedback.objects.bulk_create(events, batch_size=1000)


def _answer(agent: Any, number: int, start: datetime, rng: random.Random) -> Any:
    from rl.models import Trace, prompt_key

    prompt = [{"role": "user", "content": f"Question {number // 4}: {_text(rng, 20)}?"}]
    return Trace(
        agent=agent,
        prompt=prompt,
        prompt_key=prompt_key(prompt),
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


def _rating(trace: Any, number: int, rng: random.Random, learned: Any) -> Any:
    from rl.models import Feedback

    value = float(rng.random() < 0.5)
    return Feedback(
        agent_id=trace.agent_id,
        trace=trace,
        kind="rating",
        scale="thumb",
        rater=f"device:{rng.randint(1, 500)}-{number}",
        raw_value=value,
        value=value,
        training_set=learned if trace.agent.name == LARGE else None,
    )


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(("parcel", "order", "refund", "label", "courier", "depot", "invoice", "noon"), k=words))


def _copy(number: int, since: datetime) -> None:
    """All that Django wrote ``since`` then, once more, ``number`` hundredths of the days earlier; ids are their hashes."""
    from django.db import connection, transaction

    from rl.models import Feedback, Trace

    tag, minutes = f"~{number}", round(number * DAYS * 24 * 60 / 100)
    if connection.vendor == "postgresql":
        again, earlier = f"md5({{0}}::text || '{tag}')::uuid", f"{{0}} - interval '{minutes} minutes'"
        key = f"md5({{0}} || '{tag}')"
    else:
        connection.ensure_connection()
        connection.connection.create_function("again", 1, lambda text: hashlib.md5(f"{text}{tag}".encode()).hexdigest())
        again, key, earlier = "again({0})", "again({0})", f"datetime({{0}}, '-{minutes} minutes')"
    other = {"external_id": f"{{0}} || '{tag}'", "session_id": f"{{0}} || '{tag}'", "prompt_key": key}
    times = dict.fromkeys(("occurred_at", "created_at", "rated_at"), earlier)
    ids = {Trace: {"id": again}, Feedback: {"trace_id": again}}
    with transaction.atomic(), connection.cursor() as cursor:
        for model, of_ids in ids.items():
            columns = [field.column for field in model._meta.concrete_fields]
            columns = [column for column in columns if (model, column) != (Feedback, "id")]
            values = [{**of_ids, **other, **times}.get(column, "{0}").format(column) for column in columns]
            table, into = model._meta.db_table, f"{', '.join(columns)}"
            copied = f"SELECT {', '.join(values)} FROM {table} WHERE created_at >= %s"
            cursor.execute(f"INSERT INTO {table} ({into}) {copied}", [connection.ops.adapt_datetimefield_value(since)])


# --- measuring ---------------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> int:
    """1 where a page could not be had."""
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()
    from django.db import connection

    start = time.perf_counter()
    agent = fill(options.traces, options.ratings)
    filled = round(time.perf_counter() - start, 1)
    pages = dict(_ask_all(agent, options))
    worst = max(page["ms"] for page in pages.values())
    document = {"database": connection.vendor, "filled_seconds": filled, "worst_ms": worst, "pages": pages}
    print(json.dumps(document, indent=1) if options.json else f"worst: {worst} ms")
    return int(any("problem" in page for page in pages.values()))


def _ask_all(agent: Any, options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    from django.contrib.auth.models import User
    from django.test import Client

    from rl.models import ApiKey, Trace, TrainingRun

    boss, _ = User.objects.get_or_create(username="boss", is_staff=True, is_superuser=True)
    client = Client(headers={"Authorization": f"Bearer {ApiKey.create(name='benchmark', kind='secret')[1]}"})
    client.force_login(boss)
    trace = Trace.objects.filter(agent=agent).values_list("pk", flat=True)[0]
    run = TrainingRun.objects.filter(agent=agent).values_list("pk", flat=True)[0]
    for page in options.page or PAGES:
        address = page.format(agent=agent.pk, trace=trace, run=run)
        result = _ask(client, address)
        if not options.json:
            print(
                f"{address:<70}{result['ms']:>9.1f} ms{result['statements']:>6}  {result.get('problem', '')}",
                flush=True,
            )
        yield address, result


def _ask(client: Any, address: str) -> dict[str, Any]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    taken = []
    for _ in range(ASKED):
        start = time.perf_counter()
        client.get(address, secure=True, follow=True)
        taken.append(1000 * (time.perf_counter() - start))
    with CaptureQueriesContext(connection) as statements:
        answer = client.get(address, secure=True, follow=True)
    result = {"ms": round(min(taken[1:]), 1), "first_ms": round(taken[0], 1), "statements": len(statements)}
    return result if answer.status_code == 200 else {**result, "problem": f"answered {answer.status_code}"}


if __name__ == "__main__":
    sys.exit(main())
