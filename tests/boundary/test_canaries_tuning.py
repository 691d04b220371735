"""No field of a job or a grader of OpenAI's fine-tuning API, and no word of a file, makes Ratchet run, import, open or
connect to anything. Programs of graders are for the sandbox (tests/from_systems/openai_tuning/graders)."""

import json
from typing import Any

import pytest
from django.test import Client

from rl.from_systems.openai_tuning import job_work
from rl.models import Agent, TrainingRun, TuningJob, UploadedFile
from tests.boundary import canaries
from tests.boundary.canaries import ADDRESS, PATH, inside, replaced
from tests.boundary.using import nothing_trained, work_on
from tests.boundary.watching import Watch
from tests.from_systems.openai_tuning.graders.graders import label_model, multi, score_model, similarity, string_check

pytestmark = pytest.mark.django_db
CHAT = {"messages": [{"role": "user", "content": f"What is at {ADDRESS}?"}, {"role": "assistant", "content": PATH}]}
PROMPT = {"messages": CHAT["messages"][:1], "answer": ADDRESS}
GRADERS = [string_check(), similarity("bleu"), label_model(), score_model(), multi("right * 2", right=string_check())]
METHODS = [
    {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 1, "learning_rate_multiplier": 0.5}}},
    {
        "type": "reinforcement",
        "reinforcement": {
            "grader": string_check(),
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
            "hyperparameters": {"eval_interval": 2, "eval_samples": 3},
        },
    },
]


class TuningWalk:
    def __init__(self, key: Client, watch: Watch) -> None:
        self.key, self.watch, self.taken = key, watch, 0

    def send(self, at: str, path: str, body: Any) -> bool:
        self.watch.at = at
        answer = self.key.post(path, json.dumps(body), content_type="application/json")
        assert answer.status_code < 500, (at, answer.content)
        self.taken += answer.status_code < 300
        return answer.status_code < 300

    def walk(self, path: str, body: Any) -> None:
        for where in canaries.places(body):
            for form, canary in canaries.forms_for(inside(body, where)).items():
                if self.send(f"{path} {where} {form}", path, replaced(body, where, canary)):
                    self.prepare()

    def prepare(self) -> None:
        for job in TuningJob.objects.filter(finished_at=None):
            job_work.prepare(job.pk)
            with nothing_trained(self.watch):
                for run in TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE):
                    work_on(run)
            job.delete()


@pytest.fixture
def walk(secret_key: str, rated: Agent, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> TuningWalk:
    monkeypatch.setattr(job_work, "LEAST_ROWS", 1)
    return TuningWalk(Client(headers={"authorization": f"Bearer {secret_key}"}), watch)


def put_file(row: Any) -> str:
    body = json.dumps(row).encode() + b"\n"
    file = UploadedFile.objects.create(filename=PATH, purpose="fine-tune", bytes=len(body))
    file.path.parent.mkdir(exist_ok=True)
    file.path.write_bytes(body)
    return file.pk


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["type"])
def test_no_field_of_a_job_does_anything(walk: TuningWalk, method: Any):
    file = put_file(CHAT if method["type"] == "supervised" else PROMPT)
    body = {
        "model": "tiny",
        "training_file": file,
        "validation_file": file,
        "suffix": "router",
        "seed": 1,
        "metadata": {"team": "support"},
        "method": method,
    }
    assert walk.send("", "/v1/fine_tuning/jobs", body)
    walk.prepare()
    walk.walk("/v1/fine_tuning/jobs", body)
    assert walk.taken > 10
    assert walk.watch.deeds == []


@pytest.mark.parametrize("grader", GRADERS, ids=lambda grader: grader["type"])
def test_no_field_of_a_grader_does_anything(walk: TuningWalk, grader: Any):
    walk.walk("/v1/fine_tuning/alpha/graders/validate", {"grader": grader})
    body = {"grader": grader, "item": {"answer": "x"}, "model_sample": "a sample"}
    walk.walk("/v1/fine_tuning/alpha/graders/run", body)
    assert walk.watch.deeds == []
