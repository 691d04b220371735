import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.evaluation import DECIDING_FIELDS
from rl.export.gguf import export as gguf
from rl.models import Agent, Artifact, Evaluation, ModelVersion
from tests.evaluation.conftest import PAIRS, adapter
from tests.evaluation.pair_sets import pair_set, version_on
from tests.guard_limits import UNLIKELY_ALLOWED

__all__ = ["adapter"]

pytestmark = [pytest.mark.learn, pytest.mark.django_db]


@pytest.fixture
def version(agent: Agent, data_dir: Path, tiny_base: Path, adapter: Path) -> ModelVersion:
    agent.guard_limits = UNLIKELY_ALLOWED
    agent.save()
    pair_set(agent, PAIRS)
    return version_on(agent, tiny_base, adapter)


def evaluate(agent: Agent, *arguments: str) -> str:
    told = StringIO()
    call_command("evaluate_model", "--agent-type", agent.name, *arguments, stdout=told, verbosity=0)
    return told.getvalue()


def document(agent: Agent, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(evaluate(agent, "--json", *arguments))
    return found


def test_it_prints_guard_rails_errors_and_the_verdict(agent, version):
    told = evaluate(agent, "--compare-base")
    assert "Held-out preference accuracy of support-chat v1: 3 pairs, 3 prompts" in told
    for words in ("Guard rails, from 3 answers of each model", "kl_to_base", "mean reward", "gate: undecided."):
        assert words in told


def test_a_judge_that_nobody_registered_is_refused_before_anything_is_loaded(agent, version):
    with pytest.raises(CommandError, match=r"unknown judge 'careful'.*JUDGES_FILE") as refusal:
        evaluate(agent, "--judge", "careful")
    assert refusal.value.returncode == 2
    with pytest.raises(CommandError, match="--judge does not go with it"):
        evaluate(agent, "--artifact", "--judge", "own")


def test_it_prints_a_few_answers_of_the_models_side_by_side(agent, version, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    report = document(agent, "--compare-base")
    told = evaluate(agent, "--compare-base")
    assert "3 of 3 prompts, answers side by side" in told
    assert len(report["guards"]["samples"]) == 3
    for heading in ("prompt", "base model", "new version"):
        assert heading in told.partition("side by side")[2]


def test_own_pairs_are_measured_and_nothing_is_stored(agent, version, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "Where is it?", "chosen": "Open Orders.", "rejected": "No."}\n')
    found = document(agent, "--test-data", str(file), "--output", str(tmp_path / "report.json"))
    assert (found["version"], found["pairs"], found["learned"]) == ("v1", 1, 0)
    assert "at least 8 are needed" in found["reason"]
    assert json.loads((tmp_path / "report.json").read_text()) == found
    assert not Evaluation.objects.exists()


def test_a_bad_line_of_own_pairs_ends_with_2_and_is_named(agent, version, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "Where is it?", "chosen": "Open Orders."}\n')
    with pytest.raises(CommandError, match=r"own\.jsonl \(line 1\): rejected must be a text") as error:
        evaluate(agent, "--test-data", str(file))
    assert error.value.returncode == 2


def test_answers_are_compared_with_those_of_a_file_by_their_fields(agent, version, tmp_path, monkeypatch):
    Agent.objects.filter(pk=agent.pk).update(response_length=8)
    file, lines = (
        tmp_path / "filer.jsonl",
        [{"prompt": f"Item {n}", "completion": {"swimlane": "HOME"}} for n in range(3)],
    )
    file.write_text("".join(json.dumps({**line, "reward": 2.5}) + "\n" for line in lines))
    found = document(agent, "--test-data", str(file))
    assert (found["measure"], found["total_examples"], found["errors"], found["accuracy"]) == ("fields", 3, 3, 0.0)
    assert (found["avg_reward"], found["verdict"]) == (2.5, "undecided")
    assert {example["error"] for example in found["error_examples"]} == {"the answer has no JSON object"}
    assert [field["name"] for field in found["fields"]] == ["swimlane"]
    monkeypatch.setenv("COLUMNS", "120")
    told = evaluate(agent, "--test-data", str(file))
    assert "Answers that are right, filer.jsonl" in told
    assert "By field; 3 of 3 answers of the new version cannot be read" in told
    assert not Evaluation.objects.exists()


def test_a_type_of_agent_is_judged_by_its_field(agent, version, tmp_path, monkeypatch):
    monkeypatch.setitem(DECIDING_FIELDS, agent.name.upper(), "swimlane")
    file = tmp_path / "filer.jsonl"
    file.write_text('{"prompt": "Item", "completion": {"urgency": "To Do"}}\n')
    with pytest.raises(CommandError, match="no line with the field swimlane, by which answers of support-chat"):
        evaluate(agent, "--test-data", str(file))


def test_a_broken_guard_rail_ends_with_4(agent, version):
    Agent.objects.filter(pk=agent.pk).update(guard_limits={**UNLIKELY_ALLOWED, "kl_to_base": 1e-9})
    with pytest.raises(CommandError) as error:
        evaluate(agent)
    assert error.value.returncode == 4
    assert Evaluation.objects.get().verdict == "reject"


def test_the_exported_file_is_measured_beside_the_weights(agent, version, tiny_base, adapter, tmp_path):
    made = gguf.export(ExportJob(str(tiny_base), adapter, tmp_path, "tiny", "q8_0"), silent)
    fields = {"kind": "gguf", "quantization": "q8_0", "size_bytes": 1, "sha256": "0" * 64}
    Artifact.objects.create(version=version, path=str(made.path), **fields)
    told = evaluate(agent, "--artifact")
    assert "file q8_0" in told
    assert "weights as trained" in told
    assert "The file at q8_0 holds what the weights promise" in told
    assert document(agent, "--artifact", "--quantization", "q8_0")["artifact"] == str(made.path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--artifact",), "v1 has no GGUF file at q8_0; there are: none yet"),
        (("--quantization", "f16"), "--quantization says which file --artifact measures"),
        (("--artifact", "--compare-base"), "--compare-base does not go with it"),
        (("--artifact", "--checkpoint", "x"), "--checkpoint does not go with it"),
    ],
)
def test_what_cannot_be_measured_ends_with_2_and_a_reason(agent, version, arguments, told):
    with pytest.raises(CommandError, match=told) as error:
        evaluate(agent, *arguments)
    assert error.value.returncode == 2
