"""What programs read beside an export: the parts with their hashes, and how it is asked."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.export_records import ExportedFile, ExportJob, ExportResult, Provenance
from rl.base.manner import SYSTEM, Manner
from rl.base.template_settings import template_settings
from rl.collect.feedback.kept_answers import read_kept_answers
from rl.export import release
from rl.export.version_file import describe_base, version_document
from rl.models import Agent, ModelVersion

FILES = (ExportedFile("chat-v1-q8_0.gguf", 12, "ab" * 32),)
SCHEMA = {"type": "object", "properties": {"team": {"type": "string"}}, "required": ["team"]}


def document(known: Provenance, adapter: Path | None = None) -> dict[str, Any]:
    job = ExportJob(known.base_model, adapter, Path("/out"), "chat-v1", "q8_0")
    return version_document("gguf", job, ExportResult(Path("/out/chat-v1-q8_0.gguf"), "q8_0"), FILES, known)


def folder_with(path: Path, name: str, text: str) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    (path / "tokenizer.json").write_text("{}")
    (path / name).write_text(text)
    return path


def test_each_part_has_its_hash_and_no_folder_of_this_machine_is_named(tmp_path: Path) -> None:
    base = folder_with(tmp_path / "base-1b", "model.safetensors", "base")
    adapter = folder_with(tmp_path / "adapter", "adapter_model.safetensors", "adapter")
    written = document(Provenance(base_model=str(base), manner=Manner(instruction="Be brief.")), adapter)
    assert written["base_model"] == {
        "name": "base-1b",
        "sha256": {"model.safetensors": hashlib.sha256(b"base").hexdigest()},
    }
    assert written["adapter"] == {"sha256": hashlib.sha256(b"adapter").hexdigest()}
    assert written["instruction"] == {"text": "Be brief.", "place": "question"}
    assert written["files"] == [{"name": "chat-v1-q8_0.gguf", "size_bytes": 12, "sha256": "ab" * 32}]
    assert str(tmp_path) not in json.dumps(written)


def test_a_model_of_the_hub_has_the_commit_that_is_here(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "snapshots" / "0123abcd", "model.safetensors", "base")
    assert describe_base(str(folder))["revision"] == "0123abcd"


def test_what_is_not_known_is_left_out() -> None:
    assert document(Provenance(base_model="acme/base-1b")) == {
        "format": 1,
        "name": "chat-v1",
        "kind": "gguf",
        "quantization": "q8_0",
        "base_model": {"name": "acme/base-1b"},
        "files": [{"name": "chat-v1-q8_0.gguf", "size_bytes": 12, "sha256": "ab" * 32}],
    }


@pytest.fixture
def version(agent: Agent) -> ModelVersion:
    agent.system_prompt, agent.response_length = "You sort mail.", 64
    agent.save()
    return ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)


@pytest.mark.django_db
def test_a_version_is_asked_with_its_system_prompt_and_its_instruction(version: ModelVersion) -> None:
    version.instruction = "Be brief."
    assert release.provenance_of(version).request == {
        "messages": [
            {"role": "system", "content": "You sort mail."},
            {"role": "user", "content": "{question}\n\nBe brief."},
        ],
        "max_tokens": 64,
        "chat_template_kwargs": template_settings(False),
    }
    version.instruction_place = SYSTEM
    assert release.provenance_of(version).request["messages"] == [
        {"role": "system", "content": "You sort mail.\n\nBe brief."},
        {"role": "user", "content": "{question}"},
    ]


@pytest.mark.django_db
def test_answers_of_a_closed_set_are_asked_for_by_a_grammar_of_them(version: ModelVersion) -> None:
    version.agent.answer_values = ["cash", 'top-"up"']
    known = release.provenance_of(version)
    assert known.answers == {"one_of": ["cash", 'top-"up"'], "because": "as the agent's settings say"}
    assert known.request["grammar"] == 'root ::= "cash" | "top-\\"up\\""'
    assert (known.request["temperature"], known.request["max_tokens"]) == (0, 64)
    version.agent.keep_to_answers = False
    assert (release.provenance_of(version).answers, read_kept_answers(version.agent)) == ({}, None)


@pytest.mark.django_db
def test_answers_of_a_structure_are_asked_for_by_their_schema_and_have_room_where_it_ends(
    version: ModelVersion,
) -> None:
    version.agent.answer_schema = SCHEMA
    known = release.provenance_of(version)
    assert known.request["response_format"]["json_schema"]["schema"] == known.answers["schema"]
    assert known.request["max_tokens"] == 64
    ending = {"type": "object", "properties": {"team": {"enum": ["cash"]}}, "additionalProperties": False}
    version.agent.answer_schema = ending
    assert "max_tokens" not in release.provenance_of(version).request
