"""From an uploaded file to an answer of the tuned model: OpenAI's own clients, the site, the queue, real trainings of a tiny
model and llama.cpp."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.fine_tuning import FineTuningJob

from tests.commands.conftest import prepared_site
from tests.commands.site import Site, kill_servers, kill_session, serving
from tests.serving.gateway.node_clients import run, with_clients
from tests.waiting import until

__all__ = ["prepared_site"]
pytestmark = [pytest.mark.process, pytest.mark.slow]
SECONDS = 600
TEAMS = ("delivery", "billing", "sales")


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ask(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Which team is question {number} for?"}


def tell(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.fixture(scope="module")
def tuning_site(prepared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str, str]]:
    """The site, its address, and a key that may train."""
    site = prepared_site.copy(tmp_path_factory.mktemp("tuning") / "data")
    key = site.json("api_key", "create", "--name", "tuner", "--scopes", "ingest,read,train")["key"]
    queue = site.start("qcluster")
    try:
        with serving(site) as url:
            yield site, f"{url}/v1", key
    finally:
        kill_session(queue)
        kill_servers(site)


@pytest.fixture
def client(tuning_site: tuple[Site, str, str]) -> openai.OpenAI:
    _, url, key = tuning_site
    return openai.OpenAI(base_url=url, api_key=key, timeout=60)


def ended(client: openai.OpenAI, job: FineTuningJob) -> FineTuningJob:
    def is_over() -> FineTuningJob | None:
        told = client.fine_tuning.jobs.retrieve(job.id)
        return told if told.status in ("succeeded", "failed", "cancelled") else None

    return until(is_over, SECONDS, every=0.5)


def kill_run(site: Site) -> None:
    """Kills the run that is at work, and has the reaper start it again."""
    ((run, pid, attempt),) = until(
        lambda: site.query("SELECT id, pid, attempt FROM rl_trainingrun WHERE state = 'running' AND pid IS NOT NULL"),
        SECONDS,
    )
    os.kill(pid, signal.SIGKILL)

    def goes_on() -> bool:
        site.run("shell", "-c", "from rl.runs import supervisor; supervisor.supervise()")
        return site.query("SELECT attempt FROM rl_trainingrun WHERE id = ?", run) == [(attempt + 1,)]

    until(goes_on, SECONDS, every=0.5)


def test_a_supervised_job_that_was_paused_and_killed_is_one_version_that_answers(
    tuning_site, client: openai.OpenAI, tmp_path: Path
):
    site, _, _ = tuning_site
    rows = [{"messages": [ask(number), tell(TEAMS[number % 3])]} for number in range(24)]
    file = client.files.create(file=write_rows(tmp_path / "chats.jsonl", *rows), purpose="fine-tune")
    numbers: Any = {"n_epochs": 4, "batch_size": 2}
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file.id,
        suffix="router",
        seed=1,
        method={"type": "supervised", "supervised": {"hyperparameters": numbers}},
    )
    until(lambda: client.fine_tuning.jobs.retrieve(job.id).status == "running", SECONDS)
    client.fine_tuning.jobs.pause(job.id)
    until(lambda: site.query("SELECT 1 FROM rl_trainingrun WHERE state IN ('cancelled', 'succeeded')"), SECONDS)
    assert client.fine_tuning.jobs.retrieve(job.id).status == "queued"
    client.fine_tuning.jobs.resume(job.id)
    kill_run(site)

    told = ended(client, job)
    assert (told.status, told.error) == ("succeeded", None)
    name = told.fine_tuned_model
    assert name is not None
    assert site.query("SELECT count(*) FROM rl_trainingrun r JOIN rl_modelversion v ON v.id = r.version_id") == [(1,)]
    assert client.models.retrieve(name).id == name
    kept = client.fine_tuning.jobs.checkpoints.list(job.id).data
    assert [checkpoint.step_number for checkpoint in kept] == [48, 36, 24]
    for model in (name, *(checkpoint.fine_tuned_model_checkpoint for checkpoint in kept)):
        answer = client.chat.completions.create(model=model, messages=[ask(3)], max_tokens=4)  # type: ignore[list-item]
        _, _, step = model.partition(":ckpt-step-")
        assert answer.model == ("router@v1" if step in ("", "48") else f"router@v1-step{step}")
    lines = client.files.content(told.result_files[0]).text.splitlines()
    assert lines[0] == "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy"
    assert len(lines) == 1 + 48
    accuracies = [float(line.split(",")[2]) for line in lines[1:]]
    assert all(0 <= accuracy <= 1 for accuracy in accuracies)
    assert accuracies[-1] > accuracies[0]
    assert told.trained_tokens is not None
    assert told.trained_tokens > 4 * 24 * 10  # passes, rows, tokens of a short row
    until(lambda: name in [model.id for model in client.models.list()])


GRADER = {
    "type": "string_check",
    "name": "team",
    "operation": "ilike",
    "input": "{{sample.output_text}}",
    "reference": "{{item.team}}",
}
METHODS: dict[str, dict[str, Any]] = {
    "supervised": {"hyperparameters": {"n_epochs": 1, "batch_size": 6}},
    "dpo": {"hyperparameters": {"n_epochs": 1, "batch_size": 4}},
    "reinforcement": {"grader": GRADER, "hyperparameters": {"n_epochs": 1, "eval_interval": 1, "eval_samples": 2}},
}


def write_files(folder: Path) -> None:
    """``KIND.jsonl`` for each method."""
    for number in range(12):
        team = tell(TEAMS[number % 3])
        pair = {"input": {"messages": [ask(number)]}, "preferred_output": [team]}
        rows = {
            "supervised": {"messages": [ask(number), team]},
            "dpo": {**pair, "non_preferred_output": [tell("I like questions.")]},
            "reinforcement": {"messages": [ask(number)], "team": team["content"]},
        }
        for kind, row in rows.items():
            with (folder / f"{kind}.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")


def test_pairs_and_graders_train_from_python(client: openai.OpenAI, tmp_path: Path):
    write_files(tmp_path)
    for kind in ("dpo", "reinforcement"):
        file = client.files.create(file=tmp_path / f"{kind}.jsonl", purpose="fine-tune")
        method: Any = {"type": kind, kind: METHODS[kind]}
        job = client.fine_tuning.jobs.create(model="tiny", training_file=file.id, suffix=f"py-{kind}", method=method)
        told = ended(client, job)
        assert (told.status, told.error) == ("succeeded", None)
        answer = client.chat.completions.create(model=told.fine_tuned_model or "", messages=[ask(3)], max_tokens=4)  # type: ignore[list-item]
        assert answer.model == f"py-{kind}@v1"
    header, *lines = client.files.content(told.result_files[0]).text.splitlines()
    column = header.split(",").index("valid_mean_reward")
    assert any(line.split(",")[column] for line in lines)


def test_each_method_trains_from_node(tuning_site, tmp_path: Path):
    _, url, key = tuning_site
    write_files(tmp_path)
    script = with_clients(Path(__file__).with_name("jobs.mjs"), tmp_path)
    printed = run("node", script, url, key, json.dumps(METHODS), cwd=tmp_path)
    told = json.loads(printed.strip().splitlines()[-1])
    assert [(name, job["status"], job["error"]) for name, job in told.items()] == [
        (name, "succeeded", None) for name in METHODS
    ]
    for kind, job in told.items():
        assert job["model"].startswith(f"ft:tiny:ratchet:{kind}:")
        assert job["answered_by"].startswith(f"{kind}@v")
