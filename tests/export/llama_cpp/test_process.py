import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from rl.base.errors import ExportFailed, Interrupted
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.gguf import lora as gguf_lora
from rl.export.gguf.export import convert
from rl.export.llama_cpp import process as llama_process
from rl.export.llama_cpp.process import ask, token_log_probs
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.tiny_models import FAMILIES

pytestmark = pytest.mark.learn

PROMPT, OTHER = list(range(40, 70)), list(range(90, 100))
SEQUENCES = [
    (PROMPT, list(range(100, 130))),
    (PROMPT, list(range(80, 60, -1))),
    (OTHER, list(range(50, 250))),
    (OTHER, []),
]


@torch.inference_mode()
def by_transformers(model: Any, prompt: list[int], answer: list[int]) -> float:
    log_probs = model(torch.tensor([prompt + answer])).logits[0].double().log_softmax(-1)
    places = torch.arange(len(prompt) - 1, len(prompt) + len(answer) - 1)
    return float(log_probs[places, answer].sum())


@pytest.fixture(scope="module")
def gguf_file(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    convert(tiny_model("llama"), path, "f16", "tiny", silent)
    return path


def test_text_that_is_served_gains_its_bos(gguf_file: Path):
    answer = ask(gguf_file, texts=["<|begin|>pump 7"], chats=["pump 7"])
    assert answer.chat_tokens == answer.tokens


def test_a_chat_is_rendered_by_the_template_in_the_file(gguf_file: Path):
    [rendered] = ask(gguf_file, chats=[{"messages": [{"role": "user", "content": "hello"}]}]).rendered
    assert rendered == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_a_process_ends_although_the_servers_loop_has_hardly_begun(gguf_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llama_process, "_BASE_SECONDS", 30.0)
    for _ in range(8):
        assert ask(gguf_file).tokens == []


@pytest.mark.parametrize("keep", [0, 100, 3000, 40_000])
def test_a_truncated_file_fails_with_one_line(keep: int, gguf_file: Path, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:keep])
    with pytest.raises(ExportFailed, match=r"llama.cpp (cannot use|crashed on) broken.gguf") as caught:
        ask(broken)
    assert "\n" not in str(caught.value)


def test_a_prompt_that_cannot_be_run_fails_with_its_reason(gguf_file: Path):
    with pytest.raises(ExportFailed, match="cannot use llama.gguf"):
        token_log_probs(gguf_file, [([10**6], [1])])


def test_a_missing_package_is_told(gguf_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ExportFailed, match="install it with: pip install xllamacpp"):
        ask(gguf_file)


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(ExportFailed, match=r"there is no file .*/nothing.gguf"):
        ask(tmp_path / "nothing.gguf")


def test_the_reason_that_llama_cpp_gives_is_passed_on_without_its_time_and_place(gguf_file: Path, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf_file.read_bytes()[:-1000])
    with pytest.raises(
        ExportFailed, match="cannot use broken.gguf: error loading model: .* not within the file bounds"
    ):
        ask(broken)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_log_probability_of_given_text_is_that_of_transformers(
    family: str, tiny_model: Callable[[str], Path], tmp_path: Path
):
    convert(tiny_model(family), tmp_path / "model.gguf", "f32", "tiny", silent)
    model = AutoModelForCausalLM.from_pretrained(tiny_model(family)).eval()
    has_gelu = family.startswith(("gpt2", "gemma"))  # which ggml looks up in a table of half precision
    room = 2e-2 if has_gelu else 1e-3
    expected = [by_transformers(model, *pair) for pair in SEQUENCES]
    assert token_log_probs(tmp_path / "model.gguf", SEQUENCES) == pytest.approx(expected, abs=room, rel=0)


def test_what_answers_have_in_common_changes_nothing(gguf_file: Path):
    alone = [token_log_probs(gguf_file, [pair])[0] for pair in SEQUENCES[:3]]
    assert token_log_probs(gguf_file, SEQUENCES[:3]) == pytest.approx(alone, abs=1e-3, rel=0)


def test_each_answer_is_reported_and_a_report_that_interrupts_ends_the_process(gguf_file: Path):
    def interrupt(event: str, values: dict[str, Any]) -> None:
        steps.append((event, values["step"], values["total_steps"]))
        if values["step"] == 2:
            raise Interrupted("enough")

    steps: list[tuple[str, int, int]] = []
    with pytest.raises(Interrupted):
        token_log_probs(gguf_file, SEQUENCES, report=interrupt)
    assert steps == [("step", 1, 4), ("step", 2, 4)]


def test_an_answer_needs_a_prompt(gguf_file: Path):
    with pytest.raises(ExportFailed, match="only after a prompt of at least one token"):
        token_log_probs(gguf_file, [([], [1])])


def test_nothing_to_score_is_nothing(gguf_file: Path):
    assert token_log_probs(gguf_file, []) == []


def test_a_token_outside_the_vocabulary_is_told(gguf_file: Path):
    with pytest.raises(ExportFailed, match=r"cannot use llama.gguf: .*token"):
        token_log_probs(gguf_file, [([1], [2, 10**6, 3])])


def test_a_process_that_says_nothing_is_ended(gguf_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llama_process, "_BASE_SECONDS", 0.0)
    monkeypatch.setattr(llama_process, "_SLOWEST_BYTES_PER_SECOND", 1e12)
    with pytest.raises(ExportFailed, match=r"llama.cpp gave no answer about llama.gguf within 0 s"):
        token_log_probs(gguf_file, SEQUENCES)


def changed(source: Path, target: Path, at: int, form: str, value: int) -> Path:
    """``source`` with the number at that byte replaced."""
    content = bytearray(source.read_bytes())
    struct.pack_into(form, content, at, value)
    target.write_bytes(content)
    return target


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(0, "<I", 0x21212121), (4, "<I", 99), (8, "<q", 1 << 60), (8, "<q", -1), (16, "<q", 1 << 40), (24, "<Q", 1 << 62)],
    ids=["magic", "version", "tensors", "fewer than none", "keys", "length of the first key"],
)
def test_a_file_that_lies_fails_with_one_line(at: int, form: str, value: int, gguf_file: Path, tmp_path: Path):
    with pytest.raises(ExportFailed, match=r"llama.cpp (cannot use|crashed on) broken.gguf") as caught:
        token_log_probs(changed(gguf_file, tmp_path / "broken.gguf", at, form, value), SEQUENCES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["llama.block_count", "llama.embedding_length", "llama.context_length", "llama.attention.head_count"]
)
def test_a_model_of_absurd_size_is_refused_and_not_tried(key: str, gguf_file: Path, tmp_path: Path):
    field = gguf.GGUFReader(gguf_file).fields[key]
    at = field.offset + sum(part.nbytes for part in field.parts[:-1])
    broken = changed(gguf_file, tmp_path / "broken.gguf", at, "<I", 2**31 - 8)
    if key == "llama.context_length":
        assert len(greedy_tokens(broken, [1, 2, 3], 2)) == 2
    else:
        with pytest.raises(ExportFailed, match=r"llama.cpp (cannot use|crashed on) broken.gguf"):
            token_log_probs(broken, SEQUENCES)


def test_an_adapter_is_scored_on_top_of_its_base(
    tiny_model: Callable[[str], Path], tiny_adapter: Callable[[str], Path], tmp_path: Path
):
    base, adapter = tiny_model("qwen2-tied"), tiny_adapter("qwen2-tied")
    convert(base, tmp_path / "base.gguf", "f32", "tiny", silent)
    job = ExportJob(str(base), adapter, tmp_path, "tiny")
    file = gguf_lora.export(job, silent).path
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter).eval()
    expected = [by_transformers(model, *pair) for pair in SEQUENCES[:2]]
    found = token_log_probs(tmp_path / "base.gguf", SEQUENCES[:2], adapter=file)
    assert found == pytest.approx(expected, abs=5e-2, rel=0)  # the adapter is stored in 16 bits
    assert token_log_probs(tmp_path / "base.gguf", SEQUENCES[:2]) != pytest.approx(expected, abs=5, rel=0)


def test_a_file_that_is_no_adapter_is_told(gguf_file: Path):
    with pytest.raises(ExportFailed, match=r"cannot use llama.gguf: .*adapter"):
        token_log_probs(gguf_file, SEQUENCES, adapter=gguf_file)
