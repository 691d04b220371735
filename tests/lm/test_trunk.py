from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from rl.lm.trunk import StateFile, kept_trunk, layers_of

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]
FAMILIES = ("qwen2-tied", "llama", "mistral", "qwen3", "gpt2", "gemma2", "gemma3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "states"


def load(folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def batch(*lengths: int, seed: int = 0) -> dict[str, Tensor]:
    """Random texts, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(10, 200, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def logits(model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """At the positions that are not padded."""
    with torch.no_grad():
        return model(**inputs, use_cache=False).logits[inputs["attention_mask"].bool()]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_comes_out_is_what_the_whole_model_gives(family: str, tiny_model: Build, file: Path):
    model, both = load(tiny_model(family)), batch(9, 4, 7)
    expected = logits(model, both)
    second = {name: value[[2, 1]][:, :7] for name, value in both.items()}
    expected_second = logits(model, second)
    with kept_trunk(model, 1, file):
        torch.testing.assert_close(logits(model, both), expected)
        torch.testing.assert_close(logits(model, both), expected)
        torch.testing.assert_close(logits(model, second), expected_second)  # other rows, less padding
        mixed = {name: torch.cat([value, batch(9, seed=1)[name]]) for name, value in both.items()}
        seen = logits(model, mixed)
    torch.testing.assert_close(seen, logits(model, mixed), atol=1e-4, rtol=1e-4)  # summed in other batches
    assert not file.exists()


def test_the_lower_layers_run_once_for_each_text(tiny_model: Build, file: Path, monkeypatch: pytest.MonkeyPatch):
    model = load(tiny_model("llama"))
    rows: list[int] = []
    layer = model.model.layers[0]
    forward = layer.forward
    monkeypatch.setattr(layer, "forward", lambda hidden, *a, **k: rows.append(len(hidden)) or forward(hidden, *a, **k))
    with kept_trunk(model, 1, file):
        for texts in (batch(5, 6), batch(5, 6), batch(5, 6, 7)):
            logits(model, texts)
    assert rows == [2, 2]  # the third batch begins with a text of the first


def interrupt(model: torch.nn.Module, file: Path, mark: str, *texts: dict[str, Tensor]) -> list[Tensor]:
    """What the texts give, in a block that ends by an exception."""
    seen: list[Tensor] = []
    with suppress(KeyboardInterrupt), kept_trunk(model, 1, file, mark):
        seen += [logits(model, inputs) for inputs in texts]
        raise KeyboardInterrupt
    return seen


def test_what_was_computed_before_an_interruption_is_read_by_the_next_block_with_the_same_mark(
    tiny_model: Build, file: Path, monkeypatch: pytest.MonkeyPatch
):
    model = load(tiny_model("llama"))
    [expected] = interrupt(model, file, "this model", batch(5, 6))
    rows: list[int] = []
    layer = model.model.layers[0]
    forward = layer.forward
    monkeypatch.setattr(layer, "forward", lambda hidden, *a, **k: rows.append(len(hidden)) or forward(hidden, *a, **k))
    [again] = interrupt(model, file, "this model", batch(5, 6))
    assert torch.equal(again, expected)
    assert rows == []
    interrupt(model, file, "another model", batch(5, 6))
    assert rows == [2]
    interrupt(model, file, "this model", batch(5, 6))
    assert rows == [2, 2]
    with kept_trunk(model, 1, file, "this model"):
        logits(model, batch(5, 6))
    assert rows == [2, 2]
    assert not file.exists()


def test_without_a_mark_nothing_stays(tiny_model: Build, file: Path):
    interrupt(load(tiny_model("llama")), file, "", batch(5))
    assert not file.exists()


def test_gradients_of_the_upper_layers_are_the_same(tiny_model: Build, file: Path):
    inputs = batch(8, 5)
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)

    def gradients(keep: int) -> list[Tensor]:
        torch.manual_seed(0)
        adapter = LoraConfig(
            r=2, target_modules=["q_proj", "down_proj"], layers_to_transform=[1], init_lora_weights=False
        )
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model("llama"), dtype=torch.float32), adapter)
        with kept_trunk(model.get_base_model(), keep, file):
            for _ in range(2):
                model(**inputs, labels=labels, use_cache=False).loss.backward()
        return [weight.grad for weight in model.parameters() if weight.requires_grad]

    for kept, plain in zip(gradients(1), gradients(0), strict=True):
        torch.testing.assert_close(kept, plain)


def test_generation_and_texts_padded_on_the_left_are_not_touched(tiny_model: Build, file: Path):
    model, inputs = load(tiny_model("llama")), batch(6, 3)
    left = {name: value.flip(1) for name, value in inputs.items()}
    expected = model.generate(input_ids=inputs["input_ids"][:1], max_new_tokens=4, do_sample=False), logits(model, left)
    with kept_trunk(model, 1, file):
        logits(model, inputs)
        again = (
            model.generate(input_ids=inputs["input_ids"][:1], max_new_tokens=4, do_sample=False),
            logits(model, left),
        )
    assert torch.equal(again[0], expected[0])
    torch.testing.assert_close(again[1], expected[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_that_end_together_share_the_states_of_those_that_begin_together(
    family: str, tiny_model: Build, file: Path, monkeypatch: pytest.MonkeyPatch
):
    model, inputs = load(tiny_model(family)), batch(6, 3, 5)
    order = (inputs["attention_mask"] == 0).long().argsort(dim=1, descending=True, stable=True)
    left = {name: value.gather(1, order) for name, value in inputs.items()}
    left["position_ids"] = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    expected = logits(model, left)
    with kept_trunk(model, 1, file):
        logits(model, inputs)
        monkeypatch.setattr(layers_of(model)[0].mlp, "forward", lambda *_: pytest.fail("a text is computed again"))
        torch.testing.assert_close(logits(model, left), expected, atol=1e-5, rtol=1e-5)


def test_no_layer_below_leaves_the_model_as_it_is(tiny_model: Build, file: Path):
    with kept_trunk(load(tiny_model("llama")), 0, file):
        assert not file.exists()


MARK = "llama of two layers"


@pytest.fixture
def states_file(tmp_path: Path) -> Path:
    return tmp_path / "states"


def states(tokens: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(tokens, 6, generator=torch.Generator().manual_seed(tokens)).to(dtype)


def filled(states_file: Path, *tokens: int) -> None:
    kept = StateFile(states_file, MARK)
    for number in tokens:
        kept.write(b"%d" % number, states(number))
    kept.close(keep=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_later_process_reads_what_an_earlier_one_wrote(states_file: Path, dtype: torch.dtype):
    for number in (3, 5):
        kept = StateFile(states_file, MARK)
        kept.write(b"%d" % number, states(number, dtype))
        assert torch.equal(kept.read(b"%d" % number), states(number, dtype))
        kept.close(keep=True)
    later = StateFile(states_file, MARK)
    assert b"3" in later
    assert b"5" in later
    assert b"4" not in later
    assert torch.equal(later.read(b"3"), states(3, dtype))
    later.close(keep=False)
    assert not states_file.exists()


def test_states_of_another_model_are_dropped(states_file: Path):
    filled(states_file, 3)
    other = StateFile(states_file, "llama of three layers")
    assert b"3" not in other
    other.close(keep=True)
    assert states_file.stat().st_size == 64


@pytest.mark.parametrize("lost", [1, 100, 5 * 6 * 4, 5 * 6 * 4 + 1, 5 * 6 * 4 + 63])
def test_what_a_killed_process_left_half_written_is_computed_again(states_file: Path, lost: int):
    filled(states_file, 3, 5)
    with states_file.open("r+b") as handle:
        handle.truncate(states_file.stat().st_size - lost)
    kept = StateFile(states_file, MARK)
    assert b"3" in kept
    assert b"5" not in kept
    kept.write(b"5", states(5))
    kept.close(keep=True)
    later = StateFile(states_file, MARK)
    assert b"5" in later
    assert torch.equal(later.read(b"5"), states(5))


def test_damaged_states_are_computed_again(states_file: Path):
    filled(states_file, 3, 5)
    content = bytearray(states_file.read_bytes())
    content[64 + 64 + 8] ^= 1
    states_file.write_bytes(content)
    kept = StateFile(states_file, MARK)
    assert b"3" not in kept
    assert b"5" in kept
    kept.write(b"3", states(3))
    kept.close(keep=True)
    later = StateFile(states_file, MARK)
    assert b"3" in later
    assert torch.equal(later.read(b"3"), states(3))


@pytest.mark.parametrize("at", [64 + 16, 64 + 24], ids=["tokens", "kind"])
def test_a_damaged_head_ends_the_file_there(states_file: Path, at: int):
    filled(states_file, 3, 5)
    content = bytearray(states_file.read_bytes())
    content[at : at + 4] = b"\xff" * 4
    states_file.write_bytes(content)
    kept = StateFile(states_file, MARK)
    assert b"3" not in kept
    assert b"5" not in kept
    kept.close(keep=True)
    assert states_file.stat().st_size == 64


def test_a_process_that_was_given_up_for_dead_and_writes_on_spoils_nothing(states_file: Path):
    filled(states_file, 3)
    old = StateFile(states_file, MARK)
    old.write(b"5", states(5))
    new = StateFile(states_file, MARK)
    assert b"3" not in new
    new.write(b"3", states(3))
    old.write(b"7", states(7))
    assert torch.equal(old.read(b"5"), states(5))
    assert torch.equal(new.read(b"3"), states(3))
    new.close(keep=True)
    old.close(keep=True)
    later = StateFile(states_file, MARK)
    assert [text in later for text in (b"3", b"5", b"7")] == [True, False, False]


def test_the_file_may_be_gone_when_an_attempt_ends_whose_place_another_took(states_file: Path):
    old = StateFile(states_file, MARK)
    new = StateFile(states_file, MARK)
    old.close(keep=False)
    new.write(b"3", states(3))
    assert torch.equal(new.read(b"3"), states(3))
    new.close(keep=False)
    assert not states_file.exists()
