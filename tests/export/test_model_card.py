import json
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from rl.base.export_records import (
    DataFacts,
    EvaluationFacts,
    ExportedFile,
    ExportJob,
    ExportResult,
    Provenance,
    card_path,
)
from rl.base.measurements import Interval
from rl.export import model_card
from rl.export.model_card import UNKNOWN_LICENCE, escape, name_on_card

FILES = (ExportedFile("chat-v15-q4_k_m.gguf", 1_234_567, "ab" * 32),)
DETAILS = {"tensor_types": {"F32": 11, "Q4_K": 13}, "self_check": {"mean_kl": 0.0005, "chat_template": "equal"}}
DATA = DataFacts("cd" * 32, "db", 76, 36, 286, 326, 5, 70, 65)
EVALUATION = EvaluationFacts(
    "2026-11-22",
    "accuracy on held-out pairs",
    "promote",
    "The new version is better.",
    {"this version": Interval(0.9, 0.8, 0.95), "v10, in use then": Interval(0.6, 0.5, 0.7)},
)
KNOWN = Provenance(
    base_model="acme/base-1b",
    agent="chat",
    version="v15",
    parent="v10",
    method="dpo",
    hyperparameters={"beta": 0.1, "reward_model": ""},
    data=DATA,
    evaluations=(EVALUATION,),
)


def written(known: Provenance = KNOWN, adapter: Path | None = None, name: str = "chat-v15") -> str:
    job = ExportJob("acme/base-1b", adapter, Path("/out"), name, "q4_k_m")
    result = ExportResult(Path("/out/gguf/chat-v15-q4_k_m.gguf"), "q4_k_m", DETAILS)
    return model_card.model_card("gguf", job, result, FILES, known)


def test_the_head_is_what_hubs_read():
    head = ModelCard(written()).data.to_dict()
    assert head == {
        "model_name": "chat-v15",
        "base_model": "acme/base-1b",
        "library_name": "gguf",
        "pipeline_tag": "text-generation",
        "tags": ["ratchet", "dpo"],
    }


@pytest.mark.parametrize(
    "line",
    [
        "| version | v15 |",
        "| version before | v10 |",
        "| base model | acme/base-1b |",
        f"| licence of the base model | {UNKNOWN_LICENCE} |",
        f"| fingerprint (SHA-256 of the rows) | {'cd' * 32} |",
        "| rows | 76 trained on, 36 held out |",
        "| ratings | 326 |",
        "| raters | 5 |",
        "| agreement between raters | 93% of 70 times that two of them rated one answer |",
        "| beta | 0.1 |",
        "| this version | 90.0% | 80.0% to 95.0% |",
        "| v10, in use then | 60.0% | 50.0% to 70.0% |",
        "**promote** The new version is better.",
        f"| chat-v15-q4_k_m.gguf | 1,234,567 | {'ab' * 32} |",
        "Tensors: 11 F32, 13 Q4_K.",
        "| mean kl | 0.0005 |",
    ],
)
def test_the_card_says_what_it_was_made_from_and_how_good_it_is(line: str):
    assert line in written().splitlines()


def test_settings_that_were_not_set_are_left_out():
    assert "reward_model" not in written()


def test_of_a_checkpoint_without_a_history_the_card_says_what_is_known():
    text = written(Provenance())
    assert "| base model | not known |" in text
    assert text.count("Nothing is known.") == 3
    assert FILES[0].sha256 in text


def test_raters_who_never_met_have_no_agreement():
    alone = DataFacts("cd" * 32, "db", 1, 1, 2, 2, 2, 0, 0)
    assert "| agreement between raters | not known: no answer was rated by two of them |" in written(
        Provenance(data=alone)
    )


def test_an_adapter_is_described_by_its_own_configuration(tmp_path: Path):
    config = {
        "peft_type": "LORA",
        "r": 8,
        "lora_alpha": 16,
        "use_rslora": True,
        "target_modules": ["model.layers.0.q_proj", "model.layers.1.q_proj", "model.layers.0.down_proj"],
    }
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    told = "LoRA adapter (rank-stabilised), rank 8, alpha 16, on down_proj, q_proj"
    assert f"| what was trained | {told} |" in written(adapter=tmp_path)


def test_where_the_base_model_lies_on_this_machine_is_not_told(tmp_path: Path):
    base = tmp_path / "our-base"
    base.mkdir()
    text = written(Provenance(base_model=str(base)))
    assert "| base model | our-base |" in text
    assert str(tmp_path) not in text
    assert "base_model" not in ModelCard(text).data.to_dict()


@pytest.mark.parametrize(
    ("head", "licence"),
    [
        ("license: apache-2.0", "apache-2.0"),
        ("license:\n- mit\n- cc0-1.0", "mit, cc0-1.0"),
        ("license: |\n  <b>mine</b> | *now*", "&lt;b&gt;mine&lt;/b&gt; \\| \\*now\\*"),
        ("title: no licence", UNKNOWN_LICENCE),
        ("license: [unclosed", UNKNOWN_LICENCE),
        ("- a list", UNKNOWN_LICENCE),
    ],
)
def test_the_licence_is_that_of_the_base_models_own_card(head: str, licence: str, tmp_path: Path):
    (tmp_path / "README.md").write_text(f"---\n{head}\n---\n# Base\n")
    assert f"| licence of the base model | {licence} |" in written(Provenance(base_model=str(tmp_path)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b", "a_b"),
        ("_a_ *b* `c`", "\\_a\\_ \\*b\\* \\`c\\`"),
        ("[x](javascript:y)", "\\[x\\](javascript:y)"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("a | b\n## c\n---", "a \\| b ## c ---"),
    ],
)
def test_texts_from_outside_are_shown_as_they_are(text: str, shown: str):
    assert escape(text) == shown


def test_a_name_cannot_break_out_of_the_head():
    text = written(name="x\n---\nlicense: mit")
    assert yaml.safe_load(text.split("\n---\n")[0].removeprefix("---\n"))["model_name"] == "x\n---\nlicense: mit"


def test_the_card_of_a_file_is_beside_it_and_that_of_a_directory_in_it(tmp_path: Path):
    assert card_path(tmp_path) == tmp_path / "README.md"
    assert card_path(tmp_path / "chat-v1.5-q8_0.gguf") == tmp_path / "chat-v1.5-q8_0.md"


def test_a_directory_is_known_by_the_name_on_its_card(tmp_path: Path):
    assert name_on_card(tmp_path) is None
    (tmp_path / "README.md").write_text("# Somebody's own notes")
    assert name_on_card(tmp_path) is None
    (tmp_path / "README.md").write_text("---\nmodel_name: chat-v15\n---\n")
    assert name_on_card(tmp_path) is None
    (tmp_path / "README.md").write_text(written())
    assert name_on_card(tmp_path) == "chat-v15"
