"""What was scored once is read, by the same model only; whatever is wrong with what is kept, it is scored again."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from rl.base.files import remove
from rl.base.records import silent
from rl.lm import kept_scores, log_probs
from rl.lm.kept_scores import fingerprint, kept_log_probs
from rl.lm.log_probs import PromptAndAnswer, Sequences
from rl.lm.score_folder import score_folder
from rl.lm.token_tree.sharing import shared_tokens
from tests.training.conftest import Listener

pytestmark = pytest.mark.learn

TEXTS: list[PromptAndAnswer] = [([5, 6, 7], [8 + number, 9, 10]) for number in range(6)]
Scored = list[PromptAndAnswer]


@pytest.fixture
def model(tiny_base: Path, data_dir: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32).eval()
    add_fused_lm_head(model)
    return model


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Scored:
    """What the model was asked for."""
    texts: Scored = []

    def note(model: torch.nn.Module, sequences: Sequences, *others: object) -> list[float]:
        texts.extend(sequences)
        return log_probs.answer_log_probs(model, sequences, *others)

    monkeypatch.setattr(kept_scores, "answer_log_probs", note)
    return texts


@pytest.fixture
def score(model: PreTrainedModel) -> Callable[..., list[float]]:
    return lambda texts=TEXTS, listener=None, autocast=None: kept_log_probs(
        model, texts, autocast, listener or Listener()
    )


def only_file() -> Path:
    return next(file for file in score_folder().iterdir() if file.name != "lock")


def test_what_is_read_is_what_was_computed(model, score, scored):
    plain = log_probs.answer_log_probs(model, TEXTS, None, Listener())
    assert score() == plain
    assert score() == plain
    assert scored == TEXTS


def test_only_what_is_new_is_computed_and_all_stand_in_their_order(score, scored):
    whole = score()
    scored.clear()
    remove(score_folder())
    score(TEXTS[1::2])
    listener = Listener()
    assert score(TEXTS, listener) == pytest.approx(whole, abs=1e-4)
    assert scored == TEXTS[1::2] + TEXTS[::2]
    assert "3 of 6 answers were scored before" in listener.log
    steps = [values for event, values in listener.events if event == "step"]
    assert steps[-1]["step"] == steps[-1]["total_steps"] == steps[0]["total_steps"] == 6


def test_where_the_prompt_ends_counts(score, scored):
    score([([5, 6, 7], [8, 9])])
    score([([5, 6], [7, 8, 9])])
    assert len(scored) == 2


def test_nothing_is_read_for_another_precision_or_another_model(model, score, scored):
    score()
    score(autocast=torch.bfloat16)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.01)
    score()
    assert len(scored) == 3 * len(TEXTS)


@pytest.mark.parametrize("damage", [b"", b"no scores", None], ids=["empty", "short", "a flipped bit"])
def test_a_damaged_file_is_computed_again_and_said(damage: bytes | None, score, scored):
    first = score()
    content = bytearray(only_file().read_bytes())
    content[-1] ^= 1
    only_file().write_bytes(content if damage is None else damage)
    listener = Listener()
    assert score(TEXTS, listener) == first
    assert len(scored) == 2 * len(TEXTS)
    assert f"{only_file()} is damaged: the scores of its answers are computed again" in listener.log
    assert score() == first
    assert len(scored) == 2 * len(TEXTS)


def test_a_file_holds_digests_and_numbers_alone(score):
    score()
    assert only_file().stat().st_size == 16 + len(TEXTS) * 20
    ids = [np.array(prompt + answer, kind).tobytes() for prompt, answer in TEXTS for kind in ("<i4", "<i2", "<i8")]
    assert not any(text in only_file().read_bytes() for text in ids)


def test_what_is_no_number_is_not_kept(model, score, scored):
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    assert all(np.isnan(score()))
    score()
    assert len(scored) == 2 * len(TEXTS)


def test_a_file_keeps_the_newest(score, scored, monkeypatch):
    monkeypatch.setattr(kept_scores, "MOST_SCORES", 4)
    score()
    score(TEXTS[2:])
    assert len(scored) == len(TEXTS)
    score(TEXTS[:2])
    assert len(scored) == len(TEXTS) + 2


def test_the_files_that_were_not_used_for_longest_make_room(score, monkeypatch):
    monkeypatch.setattr(kept_scores, "MOST_BYTES", 200)
    score()
    first = only_file()
    os.utime(first, (1, 1))
    score(autocast=torch.bfloat16)
    assert not first.exists()
    assert only_file() != first


def test_a_folder_that_cannot_be_written_keeps_nothing_and_stops_nobody(score):
    score_folder().write_text("a file")
    listener = Listener()
    assert len(score(TEXTS, listener)) == len(TEXTS)
    assert any("could not be kept" in text for text in listener.log.splitlines())


@pytest.fixture
def base(tiny_base: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32).eval()
    add_fused_lm_head(model)
    return model


def adapted(model: PreTrainedModel, name: str = "default", seed: int = 0) -> PeftModel:
    torch.manual_seed(seed)
    lora = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    return get_peft_model(model, lora, adapter_name=name)


def test_an_adapter_that_is_turned_off_or_taken_out_leaves_the_base_models(base: PreTrainedModel):
    alone = fingerprint(base, None)
    model = adapted(base)
    assert fingerprint(model, None) != alone
    with model.disable_adapter():
        assert fingerprint(model, None) == alone
    assert fingerprint(model.unload(), None) == alone


def test_two_adapters_of_a_model_are_two(base: PreTrainedModel):
    model = adapted(base, "first")
    model.add_adapter("second", model.peft_config["first"])
    first = fingerprint(model, None)
    model.set_adapter("second")
    assert fingerprint(model, None) != first
    model.set_adapter("first")
    assert fingerprint(model, None) == first


def test_one_weight_of_an_adapter_is_another_adapter(base: PreTrainedModel):
    model = adapted(base)
    before = fingerprint(model, None)
    with torch.no_grad():
        next(weight for name, weight in model.named_parameters() if "lora_B" in name).view(-1)[0] += 1e-6
    assert fingerprint(model, None) != before


def test_one_weight_of_the_base_model_is_another_model(base: PreTrainedModel):
    before = fingerprint(base, None)
    with torch.no_grad():
        base.get_input_embeddings().weight.view(-1)[-1] += 1e-6
    assert fingerprint(base, None) != before


def test_precision_configuration_and_the_tree_count(base: PreTrainedModel):
    marks = {fingerprint(base, None), fingerprint(base, torch.bfloat16)}
    with shared_tokens(base, silent):
        marks.add(fingerprint(base, None))
    base.config.rms_norm_eps *= 2
    marks.add(fingerprint(base, None))
    marks.add(fingerprint(base.to(torch.bfloat16), None))
    assert len(marks) == 5


def test_where_the_files_lie_does_not_count(base: PreTrainedModel):
    before = fingerprint(base, None)
    base.config._name_or_path, base.config.use_cache = "elsewhere", not base.config.use_cache
    assert fingerprint(base, None) == before
