import json
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from gguf import GGUFReader
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, Phi3Config

from rl.base.errors import ExportFailed, Interrupted, UsageError
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report, silent
from rl.config.levels import LEVELS, SMALL_LEVELS
from rl.export.gguf import export as gguf
from rl.export.gguf.export import export
from rl.export.hf import merge
from rl.lm.tiny_model import build as build_embedded_model
from tests.export.gguf import both
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.tiny_models import FAMILIES, build_model

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]
CHAT = [{"role": "user", "content": "Which chart shows the fan's last 1234 readings?"}]
NEW_TOKENS = 16


def run(base: Path | str, adapter: Path | None, output: Path, level: str, report: Report = silent) -> ExportResult:
    return export(ExportJob(str(base), adapter, output, name="tiny", quantization=level), report)


def chat_prompt(directory: Path) -> list[int]:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokenizer(CHAT[0]["content"])["input_ids"]


def continuation(model: Any, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    made = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False
    )
    return made[0, len(prompt) :].tolist()


def file_tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("family", FAMILIES)
def test_llama_cpp_continues_a_chat_as_transformers_does(
    family: str, tiny_model: Build, tiny_adapter: Build, tmp_path: Path
):
    base, adapter = tiny_model(family), tiny_adapter(family)
    result = run(base, adapter, tmp_path, "f16")
    prompt = chat_prompt(base)
    plain = AutoModelForCausalLM.from_pretrained(base)
    without = continuation(plain, prompt)
    expected = continuation(PeftModel.from_pretrained(plain, str(adapter)), prompt)
    assert greedy_tokens(result.path, prompt, NEW_TOKENS) == expected != without
    assert result.details["self_check"]["top1_agreement"] > 0.97
    assert file_tree(tmp_path) == ["gguf/tiny-f16.gguf"]


@pytest.fixture(scope="module")
def exported(tiny_model: Build, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ExportResult]:
    """``exported("q8_0")``: one model at that level, which tests must not change."""
    folder = tmp_path_factory.mktemp("levels")
    return cache(lambda level: run(tiny_model("qwen2-untied"), None, folder, level))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_loads_and_says_what_it_is_made_of(level: str, exported: Callable[[str], ExportResult]):
    result = exported(level)
    reader = GGUFReader(result.path)
    assert result.details["tensor_types"] == Counter(tensor.tensor_type.name for tensor in reader.tensors)
    assert result.details["size_bytes"] == result.path.stat().st_size
    assert result.details["self_check"]["tokens_equal"] > 100
    assert result.details["quantizer"] == ("xllamacpp" if level in SMALL_LEVELS else "gguf")
    assert (result.quantization, *result.path.parts[-2:]) == (level, "gguf", f"tiny-{level}.gguf")
    assert reader.fields["general.name"].contents() == "tiny"


def test_the_model_that_comes_with_ratchet_can_be_exported(tmp_path: Path):
    base = build_embedded_model(tmp_path / "tiny", silent)
    result = run(base, None, tmp_path, "q4_k_m")
    assert result.details["self_check"]["chat_template"] == "equal"
    assert result.details["tensor_types"].keys() == {"F32", "Q4_K", "Q6_K"}


def test_smaller_levels_make_smaller_files(exported: Callable[[str], ExportResult]):
    ordered = ("f32", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
    sizes = [exported(level).details["size_bytes"] for level in ordered]
    assert sizes == sorted(sizes, reverse=True)


def test_a_width_that_fits_no_k_quant_block_still_loads_shows_its_real_mixture_and_is_warned_about(tmp_path: Path):
    config, tokenizer = FAMILIES["qwen2-untied"]()
    config.hidden_size = 192
    build_model(tmp_path / "model", config, tokenizer)
    result = run(tmp_path / "model", None, tmp_path, "q4_k_m")
    assert result.details["tensor_types"].keys() == {"F32", "Q4_K", "Q5_0", "Q6_K", "Q8_0"}
    assert "matrices are too narrow for the blocks of q4_k_m" in result.details["warning"]


def test_the_level_may_be_in_capitals_and_an_unknown_one_is_a_usage_error(tiny_model: Build, tmp_path: Path):
    assert run(tiny_model("gpt2"), None, tmp_path, "Q8_0").path.name == "tiny-q8_0.gguf"
    with pytest.raises(UsageError, match="unknown quantization 'q9'; known: "):
        run(tiny_model("gpt2"), None, tmp_path, "q9")


def test_progress_is_told_by_stages_and_tensors(tiny_model: Build, tmp_path: Path):
    told: list[tuple[str, dict[str, Any]]] = []
    run(tiny_model("gpt2"), None, tmp_path, "f16", lambda event, values: told.append((event, values)))
    assert [values["name"] for event, values in told if event == "stage"] == ["merge", "convert", "check"]
    convert = told.index(("stage", {"name": "convert"}))
    for part in (told[:convert], told[convert:]):
        steps = [values for event, values in part if event == "step"]
        assert [values["step"] for values in steps] == list(range(1, steps[0]["total_steps"] + 1))


@pytest.mark.parametrize("stage", ["merge", "convert"])
def test_an_interrupted_export_keeps_the_earlier_file_and_leaves_nothing_else(
    stage: str, tiny_model: Build, tmp_path: Path
):
    earlier, stages = run(tiny_model("gpt2"), None, tmp_path, "f16").path.read_bytes(), [""]

    def interrupt(event: str, values: dict[str, Any]) -> None:
        stages.append(values.get("name", stages[-1]))
        if values.get("step") == 5 and stages[-1] == stage:
            raise Interrupted("asked to stop")

    with pytest.raises(Interrupted):
        run(tiny_model("gpt2"), None, tmp_path, "f16", interrupt)
    assert file_tree(tmp_path) == ["gguf/tiny-f16.gguf"]
    assert (tmp_path / "gguf" / "tiny-f16.gguf").read_bytes() == earlier


def test_an_unsupported_architecture_is_refused_before_any_work(tmp_path: Path):
    Phi3Config(architectures=["Phi3ForCausalLM"], pad_token_id=0).save_pretrained(tmp_path / "phi")
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "phi" / name).touch()
    with pytest.raises(ExportFailed, match="no GGUF export for the architecture Phi3ForCausalLM; supported: "):
        run(tmp_path / "phi", None, tmp_path / "out", "f16")
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_no_slug_writes_nothing(tiny_model: Build, tmp_path: Path):
    with pytest.raises(UsageError, match="export name"):
        export(ExportJob(str(tiny_model("gpt2")), None, tmp_path / "out", "../up", "f16"), silent)
    assert not (tmp_path / "out").exists()


def spoil_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").write_text('{"version": "1.0", ')


def point_outside(model: Path) -> None:
    (model / "model.safetensors").rename(model.parent / "secret.safetensors")
    index = {"metadata": {}, "weight_map": {"transformer.wte.weight": "../secret.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def spoil_index(model: Path) -> None:
    (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
    (model / "model.safetensors.index.json").write_text('{"weight_map": ["model-00001-of-00001.safetensors"]}')


def cut_short(model: Path) -> None:
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-10_000])


def spoil_config(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"n_head": 7}))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (spoil_tokenizer, "cannot load the tokenizer of "),
        (point_outside, r"names a file outside of its directory: \.\./secret.safetensors"),
        (spoil_index, "is not a whole model: model.safetensors.index.json names no weight files"),
        (cut_short, r"cannot read .*model.safetensors: "),
        (spoil_config, "cannot build the model of "),
    ],
)
@pytest.mark.parametrize("exporter", [gguf, merge])
def test_a_damaged_model_is_told_in_one_line_and_leaves_nothing(
    exporter: ModuleType, damage: Callable[[Path], None], what: str, tiny_model: Build, tmp_path: Path
):
    model = shutil.copytree(tiny_model("gpt2"), tmp_path / "model")
    damage(model)
    with pytest.raises((ExportFailed, UsageError), match=what) as caught:
        exporter.export(ExportJob(str(model), None, tmp_path / "out", "tiny"), silent)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists() or file_tree(tmp_path / "out") == []


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_is_told_in_one_line_and_leaves_nothing(tiny_model: Build, tmp_path: Path):
    """The limits cut the tokenizer, the weights, and the GGUF file, which is larger because the tokenizer is in it."""
    base = tiny_model("qwen2-tied")
    weights = (base / "model.safetensors").stat().st_size
    early, middle, late = (tmp_path / name for name in ("early", "middle", "late"))
    lines = []
    for place, limit in {early: 1000, middle: weights // 2, late: weights + 3000}.items():
        with no_file_beyond(limit), redirect_stderr(StringIO()):
            lines += both.export_both(base, place)
    full = "the disk of {} is full or a quota is reached; nothing was kept of this export"
    assert lines == [
        *(full.format(place) for place in (early, early / "gguf", middle, middle / "gguf")),
        "done",
        full.format(late / "gguf"),
    ]
    assert {name.split("/")[0] for name in file_tree(tmp_path)} == {"late"}
    assert {name.split("/")[0] for name in file_tree(late)} == {"merged"}


def test_a_small_disk_is_noticed_before_it_is_full(tiny_model: Build, tmp_path: Path):
    """A merged model needs 5.2 MB; a GGUF export needs that, for the while, and as much again."""
    small, middle = tmp_path / "small", tmp_path / "middle"
    script = (
        f"mkdir {small} {middle} && mount -t tmpfs -o size=1m tmpfs {small} && mount -t tmpfs -o size=7m tmpfs {middle}"
        f' && "$@" && find {small} {middle} -type f | wc -l'
    )
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets no test mount a small file system of its own")
    small.rmdir()
    middle.rmdir()
    command = [*prefix, sys.executable, "-m", both.__name__, str(tiny_model("qwen2-tied")), str(small), str(middle)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    starts = [f"not enough space in {place}: the export needs " for place in (small, small / "gguf", middle / "gguf")]
    assert [line.startswith(start) for line, start in zip((*lines[:2], lines[3]), starts, strict=True)] == [True] * 3
    assert lines[2] == "done"
    assert lines[-1] == "6", "the merged model's files, and no others"
