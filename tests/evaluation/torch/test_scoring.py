from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.errors import TrainingFailed
from rl.base.records import silent
from rl.evaluation.torch import scoring
from rl.evaluation.torch.scoring import score_versions
from rl.lm.log_probs import answer_log_probs
from tests.evaluation.conftest import PAIRS, TOO_LONG, Row
from tests.evaluation.pair_sets import score_pairs

pytestmark = pytest.mark.learn


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "kept_log_probs", answer_log_probs)


def by_hand(model: torch.nn.Module, base: Path, entry: Row, side: str) -> float:
    """One forward pass over one conversation, without padding."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    prompt = tokenizer.apply_chat_template(entry["prompt"], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(entry["prompt"] + entry[side], tokenize=False).removesuffix("\n")
    assert whole.startswith(prompt)
    start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
    with torch.no_grad():
        logps = model(ids).logits[0, :-1].log_softmax(-1)
    picked = logps.gather(1, ids[0, 1:, None])[:, 0]
    return float(picked[start - 1 :].sum())


def test_scores_equal_a_forward_pass_by_hand(tiny_base: Path, adapter: Path) -> None:
    scores = score_versions(str(tiny_base), {"base": None, "tuned": adapter}, PAIRS, max_length=512, report=silent)
    plain = AutoModelForCausalLM.from_pretrained(tiny_base).eval()
    tuned = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_base), str(adapter)).eval()
    for name, model in (("base", plain), ("tuned", tuned)):
        for entry, score in zip(PAIRS, scores[name], strict=True):
            assert score.prompt_key == entry["prompt_key"]
            assert score.chosen_logp == pytest.approx(by_hand(model, tiny_base, entry, "chosen"), abs=1e-3)
            assert score.rejected_logp == pytest.approx(by_hand(model, tiny_base, entry, "rejected"), abs=1e-3)
    assert scores["base"] != scores["tuned"]


def test_an_adapter_leaves_no_trace_on_the_models_scored_after_it(tiny_base: Path, adapter: Path) -> None:
    adapters = {"before": None, "tuned": adapter, "after": None, "tuned again": adapter}
    scores = score_versions(str(tiny_base), adapters, PAIRS, max_length=512, report=silent)
    assert scores["before"] == scores["after"]
    assert scores["tuned"] == scores["tuned again"]


def test_one_model_scores_as_it_does_among_several(tiny_base: Path, adapter: Path) -> None:
    together = score_versions(str(tiny_base), {"tuned": adapter, "base": None}, PAIRS, max_length=512, report=silent)
    assert score_pairs(str(tiny_base), adapter, PAIRS, max_length=512, report=silent) == together["tuned"]
    assert score_pairs(str(tiny_base), None, PAIRS, max_length=512, report=silent) == together["base"]


def test_padding_and_company_do_not_change_a_score(tiny_base: Path) -> None:
    together = score_pairs(str(tiny_base), None, PAIRS, max_length=512, report=silent)
    alone = [score_pairs(str(tiny_base), None, [entry], max_length=512, report=silent)[0] for entry in PAIRS]
    for first, second in zip(together, alone, strict=True):
        assert first.margin == pytest.approx(second.margin, abs=1e-3)


def test_a_pair_whose_prompt_is_too_long_has_no_score_and_is_told(tiny_base: Path, adapter: Path) -> None:
    logged: list[str] = []

    def report(event: str, values: dict[str, Any]) -> None:
        if event == "log":
            logged.append(values["text"])

    pairs = [PAIRS[0], TOO_LONG, *PAIRS[1:]]
    adapters = {"base": None, "tuned": adapter}
    scores = score_versions(str(tiny_base), adapters, pairs, max_length=128, report=report)
    without = score_versions(str(tiny_base), adapters, PAIRS, max_length=128, report=silent)
    assert logged == ["1 of 4 held-out pairs have too long a prompt; not scored"]
    for name in adapters:
        assert scores[name] == [without[name][0], None, *without[name][1:]]


def test_pairs_that_are_all_too_long_have_no_scores(tiny_base: Path) -> None:
    assert score_pairs(str(tiny_base), None, [TOO_LONG, TOO_LONG], max_length=128, report=silent) == [None, None]


def test_a_folder_without_weights_is_no_adapter(tiny_base: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"a pickle that nobody may load")
    with pytest.raises(TrainingFailed, match=r"is not a finished adapter: it has no adapter_model\.safetensors"):
        score_pairs(str(tiny_base), tmp_path, PAIRS, max_length=512, report=silent)


def test_an_adapter_of_another_model_is_refused(tiny_base: Path, adapter: Path, tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    other = Qwen2ForCausalLM(Qwen2Config(hidden_size=64, intermediate_size=64, num_hidden_layers=2, vocab_size=300))
    get_peft_model(other, LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(TrainingFailed, match="the adapter .* does not fit "):
        score_pairs(str(tiny_base), tmp_path, PAIRS, max_length=512, report=silent)


def test_an_adapter_with_more_layers_than_the_model_is_refused(tiny_base: Path, tmp_path: Path) -> None:
    from transformers import AutoConfig, Qwen2ForCausalLM

    deeper = Qwen2ForCausalLM(
        AutoConfig.from_pretrained(tiny_base, num_hidden_layers=3, layer_types=["full_attention"] * 3)
    )
    get_peft_model(deeper, LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(TrainingFailed, match=r"14 weights do not match, the first is .*layers\.2"):
        score_pairs(str(tiny_base), tmp_path, PAIRS, max_length=512, report=silent)
