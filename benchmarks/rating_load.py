"""200 raters at once on one queue of the rating page, each item for one person: who gets what, how fast, and is any lost?

    DATABASE_URL=postgres://… .venv/bin/python benchmarks/rating_load.py --traces 100000 --raters 200 --votes 5

Makes all its rows in that database, which should be a new and empty one that ``migrate`` has seen. Raters are threads, each
with a connection of its own while it asks or votes; at most ``--connections`` of them talk to the database at a time, as
behind a server with that many workers. What is measured is one claim of an item, one decision and the progress, together;
then the same of 20 raters in turn on one connection, for the statements and the computing time of this process alone.
"""

import argparse
import os
import statistics
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")

import django

django.setup()

from django.db import connection, connections  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from rl.models import Agent, Claim, Feedback, RatingQueue, Trace, prompt_key  # noqa: E402
from rl.queues.claims import next_claims  # noqa: E402
from rl.queues.decisions import Rater, decide_all  # noqa: E402
from rl.queues.votes import QueueVote, progress  # noqa: E402

AT_ONCE = 5_000


def fill(traces: int) -> Agent:
    agent = Agent.objects.create(name="load")
    for start in range(0, traces, AT_ONCE):
        prompts = [[{"role": "user", "content": f"question {number}"}] for number in range(start, start + AT_ONCE)]
        rows = [
            Trace(agent=agent, prompt=prompt, prompt_key=prompt_key(prompt), response="answer") for prompt in prompts
        ]
        Trace.objects.bulk_create(rows[: traces - start])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return agent


def operate(queue: RatingQueue, rater: str) -> None:
    for claim in next_claims(queue, rater, want=1):
        given = QueueVote(id=uuid.uuid4(), claim=claim.pk, action="rate", value=1.0)
        decide_all(queue, Rater(rater), [given], lambda trace: ())
    progress(queue, rater)


def cost(queue: RatingQueue, operations: int = 60) -> str:
    with CaptureQueriesContext(connection) as statements:
        operate(queue, "rater 0")
    start = time.process_time()
    for number in range(operations):
        operate(queue, f"rater {number % 20}")
    seconds = (time.process_time() - start) / operations
    return f"{len(statements)} | {seconds * 1000:.0f}"


def vote(queue: RatingQueue, rater: str, votes: int, door: threading.Semaphore) -> list[float]:
    seconds = []
    for _ in range(votes):
        with door:
            start = time.perf_counter()
            operate(queue, rater)
            seconds.append(time.perf_counter() - start)
            connections.close_all()
    return seconds


def measure(queue: RatingQueue, raters: int, votes: int, at_once: int) -> str:
    door = threading.Semaphore(at_once)
    start = time.perf_counter()
    with ThreadPoolExecutor(raters) as pool:
        work = [pool.submit(vote, queue, f"rater {number}", votes, door) for number in range(raters)]
        seconds = sorted(second for task in work for second in task.result())
    total = time.perf_counter() - start
    decided = Claim.objects.filter(queue=queue, state=Claim.State.DECIDED)
    items = decided.values("trace").distinct().count()
    stored = Feedback.objects.filter(claims__queue=queue, is_current=True).count()
    return (
        f"{decided.count()} | {decided.count() - items} | {raters * votes - stored} | {len(seconds) / total:.0f} | "
        f"{statistics.median(seconds) * 1000:.0f} | {seconds[int(len(seconds) * 0.95)] * 1000:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--votes", type=int, default=5)
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    agent = fill(options.traces)
    print("| order | decisions | items twice | lost | a second | ms: median | 95 % under | statements | CPU ms |")
    print("|---" * 9 + "|")
    for order in RatingQueue.Order.values:
        settings = {"order": order, "raters_per_item": 1, "gold_share": 0, "repeat_share": 0}
        queue = RatingQueue.objects.create(agent=agent, name=order, **settings)
        measured = measure(queue, options.raters, options.votes, options.connections)
        print(f"| `{order}` | {measured} | {cost(queue)} |", flush=True)


if __name__ == "__main__":
    main()
