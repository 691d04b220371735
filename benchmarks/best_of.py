"""What the best of several answers costs: seconds and tokens of an answer through the gateway, with llama.cpp and a judge.

    .venv/bin/python benchmarks/best_of.py --model smollm2 --questions 12 --counts 1 4

The judge prefers long answers: what it likes does not change what it takes.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOKENS = 128
PREPARE = """
import json
import numpy as np
from django.core.management import call_command
from rl.base.records import silent
from rl.judge import head
from rl.lm.base_models import resolve
from rl.models import Agent, ApiKey, LabelModel
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="chat", base_model={model!r}, response_length={tokens})
with open(resolve({model!r}, silent) + "/config.json") as config:
    width = 2 * json.load(config)["hidden_size"] + 1
row = LabelModel.objects.create(
    agent=agent, labels=1, heldout_labels=1, heldout_accuracy=1.0, majority_share=0.5
)
length_alone = np.eye(1, width, width - 1)[0]
judge = head.Head(np.zeros(width), length_alone, np.ones(width), np.array(0.0), agent.base_model)
head.save(judge, row.path)
print(ApiKey.create(name="benchmark", kind="secret")[1])
"""
JUDGED = """
from rl.models import Trace
rows = Trace.objects.order_by("-created_at").values_list("details__best_of", flat=True)[:{questions}]
print(*[row["judge_ms"] for row in rows if row and "judge_ms" in row])
"""


class Site:
    def __init__(self, data: Path) -> None:
        self.data = data
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "MODEL_CACHE") if name in os.environ}
        own = {"ENV_FILE": os.devnull, "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40, "DEBUG": "1"}
        self.environment = {**keep, **own, "DATA_DIR": str(data), "DATABASE_URL": f"sqlite:///{data / 'db.sqlite3'}"}

    def run(self, *arguments: str) -> str:
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def deploy(self, *arguments: str) -> str:
        return self.run("deploy_model", "--agent", "chat", "--version", "base", *arguments)

    @contextmanager
    def gateway(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(port)]
        with subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL) as process:
            try:
                while process.poll() is None:
                    with suppress(OSError):
                        urllib.request.urlopen(f"{url}/healthz", timeout=2).close()
                        break
                    time.sleep(0.2)
                yield url
            finally:
                process.terminate()


def ask(url: str, key: str, question: str) -> tuple[float, int]:
    """Seconds, and tokens that were generated."""
    body = {"model": "chat", "messages": [{"role": "user", "content": question}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as response:
        tokens: int = json.load(response)["usage"]["completion_tokens"]
    return time.monotonic() - began, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    questions = (ROOT / "rl" / "demo" / "everyday_questions.txt").read_text().splitlines()[: options.questions]
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder) / "data")
        site.data.mkdir()
        key = site.run("shell", "--no-imports", "-c", PREPARE.format(model=options.model, tokens=TOKENS))
        site.deploy("--target", "llama_cpp")
        try:
            with site.gateway() as url:
                print("| answers | seconds | tokens | judged | seconds of the judge |\n|---|---|---|---|---|")
                for count in options.counts:
                    site.deploy("--best-of", str(count))
                    time.sleep(3)  # the gateway reads its table every two seconds
                    ask(url, key, "Hello")
                    rows = [ask(url, key, question) for question in questions]
                    seconds, tokens = (statistics.mean(row[column] for row in rows) for column in (0, 1))
                    time.sleep(2)  # answers come into the database a moment later
                    judged = site.run("shell", "--no-imports", "-c", JUDGED.format(questions=len(rows))).split()
                    judge = f"{len(judged)} | {statistics.mean(map(float, judged)) / 1000:.2f}" if judged else "0 |"
                    print(f"| {count} | {seconds:.2f} | {tokens:.0f} | {judge} |", flush=True)
        finally:
            site.deploy("--stop")


if __name__ == "__main__":
    main()
