from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.errors import TrainingFailed
from rl.evaluation.scoring import score_pairs, score_versions
from rl.records import silent
from rl.training import tiny_model

Row = dict[str, Any]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.build(tmp_path_factory.mktemp("base") / "tiny", silent)


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter whose every weight is random, so that it changes all scores."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_pretrained(base)
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    folder = tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(folder)
    return folder


def pair(number: int, chosen: str, rejected: str) -> Row:
    return {
        "prompt_key": f"q{number}",
        "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"Where is parcel {number}?" * number},
        ],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }


PAIRS = [
    pair(1, "Open Orders and choose Track.", "We are very sorry to hear that."),
    pair(4, "It is on the van.", "Please be patient with us for a while, thank you for your understanding."),
    pair(2, "Zürich, 東京 🙂", ""),
]


def by_hand(model: torch.nn.Module, base: Path, entry: Row, side: str) -> float:
    """One forward pass over one conversation, without padding."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    prompt = tokenizer.apply_chat_template(entry["prompt"], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(entry["prompt"] + entry[side], tokenize=False)
    assert whole.startswith(prompt)
    start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
    with torch.no_grad():
        logps = model(ids).logits[0, :-1].log_softmax(-1)
    picked = logps.gather(1, ids[0, 1:, None])[:, 0]
    return float(picked[start - 1 :].sum())


def test_scores_equal_a_forward_pass_by_hand(base: Path, adapter: Path) -> None:
    scores = score_versions(str(base), {"base": None, "tuned": adapter}, PAIRS, max_length=512, report=silent)
    plain = AutoModelForCausalLM.from_pretrained(base).eval()
    tuned = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(adapter)).eval()
    for name, model in (("base", plain), ("tuned", tuned)):
        for entry, score in zip(PAIRS, scores[name], strict=True):
            assert score.prompt_key == entry["prompt_key"]
            assert score.chosen_logp == pytest.approx(by_hand(model, base, entry, "chosen"), abs=1e-3)
            assert score.rejected_logp == pytest.approx(by_hand(model, base, entry, "rejected"), abs=1e-3)
    assert scores["base"] != scores["tuned"]


def test_an_adapter_leaves_no_trace_on_the_models_scored_after_it(base: Path, adapter: Path) -> None:
    adapters = {"before": None, "tuned": adapter, "after": None, "tuned again": adapter}
    scores = score_versions(str(base), adapters, PAIRS, max_length=512, report=silent)
    assert scores["before"] == scores["after"]
    assert scores["tuned"] == scores["tuned again"]


def test_one_model_scores_as_it_does_among_several(base: Path, adapter: Path) -> None:
    together = score_versions(str(base), {"tuned": adapter, "base": None}, PAIRS, max_length=512, report=silent)
    assert score_pairs(str(base), adapter, PAIRS, max_length=512, report=silent) == together["tuned"]
    assert score_pairs(str(base), None, PAIRS, max_length=512, report=silent) == together["base"]


def test_padding_and_company_do_not_change_a_score(base: Path) -> None:
    together = score_pairs(str(base), None, PAIRS, max_length=512, report=silent)
    alone = [score_pairs(str(base), None, [entry], max_length=512, report=silent)[0] for entry in PAIRS]
    for first, second in zip(together, alone, strict=True):
        assert first.margin == pytest.approx(second.margin, abs=1e-3)


def test_a_pair_whose_prompt_is_too_long_is_left_out_and_told(base: Path) -> None:
    told: list[str] = []

    def report(event: str, values: dict[str, Any]) -> None:
        if event == "log":
            told.append(values["text"])

    scores = score_pairs(str(base), None, [*PAIRS, pair(40, "Yes.", "No.")], max_length=128, report=report)
    assert [score.prompt_key for score in scores] == ["q1", "q4", "q2"]
    assert told == ["1 of 4 held-out pairs have too long a prompt; not scored"]


def test_a_folder_without_weights_is_no_adapter(base: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"a pickle that nobody may load")
    with pytest.raises(TrainingFailed, match=r"is not a finished adapter: it has no adapter_model\.safetensors"):
        score_pairs(str(base), tmp_path, PAIRS, max_length=512, report=silent)


def test_an_adapter_of_another_model_is_refused(base: Path, adapter: Path, tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    other = Qwen2ForCausalLM(Qwen2Config(hidden_size=64, intermediate_size=64, num_hidden_layers=2, vocab_size=300))
    get_peft_model(other, LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(TrainingFailed, match="the adapter .* does not fit "):
        score_pairs(str(base), tmp_path, PAIRS, max_length=512, report=silent)


def test_an_adapter_with_more_layers_than_the_model_is_refused(base: Path, tmp_path: Path) -> None:
    from transformers import AutoConfig, Qwen2ForCausalLM

    deeper = Qwen2ForCausalLM(AutoConfig.from_pretrained(base, num_hidden_layers=3, layer_types=["full_attention"] * 3))
    get_peft_model(deeper, LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(TrainingFailed, match=r"14 weights do not match, the first is .*layers\.2"):
        score_pairs(str(base), tmp_path, PAIRS, max_length=512, report=silent)
