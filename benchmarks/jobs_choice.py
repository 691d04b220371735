"""The rung before any training: the base model by llama.cpp behind the gateway, which chooses among a closed set."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import jobs_test
from crash_site import free_port
from jobs_site import AGENT, MANAGE, Site

from rl.data_formatter.answer_kinds import AnswerKind
from rl.data_formatter.answer_tree import Remembered

PATIENCE_SECONDS: Final = 120
SEEN_SECONDS: Final = 2.0
"""The gateway has read by then what was imported."""
Rows = Sequence[dict[str, Any]]


def climb(
    folder: Path, rows: Rows, sizes: Sequence[int], test: Sequence[tuple[str, str]], kind: AnswerKind
) -> dict[int, dict[str, Any]]:
    """Right answers by number of corrections: chosen as they are served, and by words alone, without a model."""
    site, climbed, known = Site(folder), {}, 0
    site.open()
    with _serving(site) as client:
        for size in sizes:
            site.add(rows[known:size])
            known = size
            time.sleep(SEEN_SECONDS)
            started = time.monotonic()
            answers = [_say(client, prompt) for prompt, _ in test]
            seconds = (time.monotonic() - started) / len(test)
            climbed[size] = {
                "choice": jobs_test.count(answers, test, kind)["right"],
                "words": jobs_test.count(_by_words(rows[:size], test), test, kind)["right"],
                "seconds_an_answer": round(seconds, 3),
            }
    return climbed


def first_correction(folder: Path, rows: Rows) -> dict[str, Any]:
    """What the base model says to a message, and after how many seconds a like one is answered as the correction says."""
    site, (prompt, right) = Site(folder), (rows[0]["prompt"][-1]["content"], rows[0]["chosen"][-1]["content"])
    site.open()
    with _serving(site) as client:
        answer = _post(client, "/v1/chat/completions", _chat(prompt))
        correction = {"kind": "correction", "trace": answer["id"], "text": right, "rater": "alice"}
        _post(client, "/api/v1/feedback/", correction)
        started = time.monotonic()
        while time.monotonic() - started < PATIENCE_SECONDS:
            if _say(client, f"{prompt} Please help me.") == right:
                break
        return {"before": answer["choices"][0]["message"]["content"], "seconds": round(time.monotonic() - started, 2)}


@contextmanager
def _serving(site: Site) -> Iterator[httpx.Client]:
    site.manage("deploy_model", "--agent", AGENT, "--version", "base", "--target", "llama_cpp")
    key = json.loads(site.manage("api_key", "create", "--name", "job", "--kind", "secret", "--json").stdout)["key"]
    port = free_port()
    process = subprocess.Popen(
        [*MANAGE, "serve", "--port", str(port)],
        env=site.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=120
        ) as client:
            _wait(client)
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        site.manage("deploy_model", "--agent", AGENT, "--stop", "--version", "base", check=False)


def _wait(client: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise SystemExit("the gateway did not start")


def _chat(prompt: str) -> dict[str, Any]:
    return {"model": AGENT, "messages": [{"role": "user", "content": prompt}], "max_tokens": 24, "temperature": 0}


def _say(client: httpx.Client, prompt: str) -> str:
    """Empty where the answer did not come in time."""
    return str(_post(client, "/v1/chat/completions", _chat(prompt))["choices"][0]["message"]["content"])


def _post(client: httpx.Client, path: str, document: dict[str, Any]) -> Any:
    response = client.post(path, json=document)
    if not response.is_success:
        raise SystemExit(f"{path}: {response.status_code} {response.text[:500]}")
    return response.json()


def _by_words(rows: Rows, test: Sequence[tuple[str, str]]) -> list[str]:
    """Without a model: what the corrected messages that read alike say."""
    remembered = Remembered([(row["prompt"][-1]["content"], row["chosen"][-1]["content"]) for row in rows])
    answers = []
    for prompt, _ in test:
        support = remembered.support(prompt)
        answers.append(max(support, key=lambda answer: support[answer]) if support else "")
    return answers
