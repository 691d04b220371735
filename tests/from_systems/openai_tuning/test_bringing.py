"""The script that brings files and jobs over, against answers in the form of OpenAI's and against this site."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import openai
import pytest
from django.conf import settings

from rl.models import ApiKey, TuningJob, UploadedFile
from tests.from_systems.openai_tuning.callers import CHATS
from tests.web.front.in_thread import front_in_thread

pytestmark = [pytest.mark.database, pytest.mark.process]
SCRIPT = Path(settings.BASE_DIR) / "docs/examples/bring_openai_jobs.py"
FILE = {"object": "file", "bytes": len(CHATS), "created_at": 1, "purpose": "fine-tune", "status": "processed"}
JOB = {
    "object": "fine_tuning.job",
    "id": "ftjob-old",
    "model": "gpt-4o-mini-2024-07-18",
    "created_at": 1721764800,
    "finished_at": 1721768400,
    "fine_tuned_model": "ft:gpt-4o-mini-2024-07-18:acme:router:9abc",
    "organization_id": "org-1",
    "result_files": ["file-result"],
    "status": "succeeded",
    "training_file": "file-old",
    "validation_file": None,
    "hyperparameters": {"n_epochs": 3, "batch_size": 1, "learning_rate_multiplier": 1.8},
    "trained_tokens": 5049,
    "seed": 7,
    "error": None,
    "user_provided_suffix": "router",
    "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 3}}},
}
ANSWERS: dict[str, Any] = {
    "/v1/files": {
        "object": "list",
        "data": [
            {**FILE, "id": "file-old", "filename": "chats.jsonl"},
            {**FILE, "id": "file-gone", "filename": "a.jsonl"},
        ],
        "has_more": False,
    },
    "/v1/fine_tuning/jobs": {
        "object": "list",
        "data": [JOB, {**JOB, "id": "ftjob-bad", "status": "failed"}],
        "has_more": False,
    },
}


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/files/file-old/content":
        return httpx.Response(200, content=CHATS)
    if request.url.path in ANSWERS:
        return httpx.Response(200, json=ANSWERS[request.url.path])
    return httpx.Response(404, json={"error": {"message": "No such File object", "type": "invalid_request_error"}})


@pytest.fixture
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("bring_openai_jobs", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def old() -> openai.OpenAI:
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return openai.OpenAI(base_url="https://api.openai.example/v1", api_key="sk-old", http_client=client)


@pytest.fixture
def new(transactional_db: None, data_dir: Path, settings) -> Iterator[openai.OpenAI]:
    key = ApiKey.create(name="tuner", kind=ApiKey.Kind.SECRET, scopes=["ingest", "read", "train"])[1]
    with front_in_thread(settings) as address:
        yield openai.OpenAI(base_url=f"{address}/v1", api_key=key)


def test_files_and_jobs_come_over_once_and_train_again(
    script, old: openai.OpenAI, new: openai.OpenAI, tmp_path, capsys
):
    target = tmp_path / "openai_jobs.json"
    book: dict[str, Any] = {"files": {}, "jobs": {}}
    for _ in range(2):
        script.bring_files(old, new, book, target)
        script.bring_jobs(old, book, target)
        script.train_again(new, "tiny", book, target)
        book = json.loads(target.read_text())
    file, job = UploadedFile.objects.get(), TuningJob.objects.get()
    assert (file.filename, file.path.read_bytes()) == ("chats.jsonl", CHATS)
    assert book["files"] == {"file-old": file.pk}
    assert {name: entry.get("is") for name, entry in book["jobs"].items()} == {"ftjob-old": job.pk, "ftjob-bad": None}
    assert (job.model, job.training_file, job.suffix, job.seed) == ("tiny", file.pk, "router", 7)
    assert job.method["supervised"]["hyperparameters"]["n_epochs"] == 3
    assert "file-gone a.jsonl: " in capsys.readouterr().out
