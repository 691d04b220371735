"""Three hundred thumbs, each on the only answer to its question, posted through the API to a site with its queue: what they
lead to with no further hand.

    .venv/bin/python benchmarks/unpaired_thumbs.py --folder /tmp/thumbs

Every question of the demo is asked in three wordings, so that no two ratings share a prompt. Prints the run, the gate's
verdict and five questions before and after as JSON; takes about a quarter of an hour on two cores. The folder is a site of
its own, which stays.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MANAGE = [sys.executable, str(ROOT / "manage.py")]
AGENT = "widgets"
WORDINGS = ("{}", "Quick question: {}", "{} I would like to know it today.")
THUMBS = 300
PREPARE = f"""
from rl.models import Agent
Agent.objects.create(
    name="{AGENT}", base_model="smollm2", online_learning=True, min_samples_to_retrain={THUMBS}, response_length=96
)
"""
REPORT = f"""
import json
from rl.models import Agent
run = Agent.by_name("{AGENT}").runs.get()
evaluation = run.version.evaluations.order_by("created_at").first() if run.version else None
print(json.dumps({{
    "run": run.pk, "method": run.method, "trigger": run.trigger, "state": run.state, "error": run.error,
    "verdict": evaluation and evaluation.verdict, "reason": evaluation and evaluation.report["reason"],
    "questions": evaluation.before_and_after[:5] if evaluation else [],
}}))
"""


def thumbs(seed: int) -> Iterator[tuple[str, str, bool]]:
    """Question, answer, and whether the simulated rater liked it: half of them, by the demo's taste."""
    sys.path.insert(0, str(ROOT))
    from rl.demo.everyday import likes, read_answers

    rng = random.Random(seed)
    rated = []
    for question, answers in read_answers().items():
        liked = [answer for answer in answers if likes(question, answer)]
        disliked = [answer for answer in answers if answer not in liked]
        for number, wording in enumerate(WORDINGS):
            pool = liked if liked and (number % 2 or not disliked) else disliked
            answer = rng.choice(pool)
            rated.append((wording.format(question), answer, answer in liked))
    rng.shuffle(rated)
    yield from rated[:THUMBS]


def environment(folder: Path) -> dict[str, str]:
    own = {
        "ENV_FILE": os.devnull,
        "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40,
        "DEBUG": "1",
        "DATA_DIR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder / 'db.sqlite3'}",
        "ENABLE_ONLINE_LEARNING": "1",
        "API_REQUESTS_PER_MINUTE": "100000",
    }
    return {**os.environ, **own}


def manage(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*MANAGE, *arguments], env=environment(folder), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def post(url: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def wait_until_up(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=2).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the site did not come up")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="empty, or not there yet")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    manage(folder, "migrate", "--verbosity", "0")
    manage(folder, "shell", "--no-imports", "-c", PREPARE)
    key = json.loads(manage(folder, "api_key", "create", "--name", "app", "--kind", "secret", "--json"))["key"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    processes = [
        subprocess.Popen([*MANAGE, *arguments], env=environment(folder))
        for arguments in (("serve", "--port", str(port)), ("qcluster",))
    ]
    try:
        wait_until_up(url)
        started = time.monotonic()
        for question, answer, liked in thumbs(options.seed):
            trace = post(f"{url}/api/v1/traces/", key, {"agent": AGENT, "prompt": question, "response": answer})
            body = {"trace": trace["id"], "rater": "simulated-1", "scale": "thumb", "value": int(liked)}
            post(f"{url}/api/v1/feedback/", key, body)
        print(f"{THUMBS} thumbs posted in {time.monotonic() - started:.0f} s", file=sys.stderr)
        report = wait_for_the_run(folder)
        print(json.dumps({**report, "seconds": round(time.monotonic() - started)}, indent=1))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=30)


def wait_for_the_run(folder: Path) -> dict[str, Any]:
    """The learner looks once a minute."""
    query = "from rl.models import TrainingRun; print(TrainingRun.objects.values_list('state', flat=True).first())"
    while manage(folder, "shell", "--no-imports", "-c", query).strip() not in ("succeeded", "failed"):
        time.sleep(10)
    report: dict[str, Any] = json.loads(manage(folder, "shell", "--no-imports", "-c", REPORT))
    return report


if __name__ == "__main__":
    main()
