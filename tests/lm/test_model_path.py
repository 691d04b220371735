import json
import shutil
from pathlib import Path

import pytest

from rl.base.errors import TrainingFailed, UsageError
from rl.lm import loading
from rl.lm.model_path import base_of, check_model_path, check_weights, is_reward_model

pytestmark = pytest.mark.learn


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The files of a model; what is in them does not matter here."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-0.5B-Instruct", "gpt2", "owner/name.v2_x"])
def test_a_hub_id_is_left_alone(name: str):
    assert check_model_path(name) == name


def test_a_whole_model_is_accepted(model: Path):
    assert check_model_path(str(model)) == str(model)


@pytest.mark.parametrize(
    "name", ["/nowhere/at/all", "./tiny", "../tiny", "~/tiny", "data/base_models/tiny", "a/b/c", r"C:\tiny", "a b", ""]
)
def test_what_looks_like_a_path_is_not_asked_of_the_hub(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no such folder"):
        check_model_path(name)


@pytest.mark.parametrize(
    ("missing", "instead", "message"),
    [
        ("config.json", "", r"config\.json is missing"),
        ("model.safetensors", "", r"model\.safetensors is missing"),
        ("tokenizer.json", "", "has no tokenizer"),
        ("config.json", "adapter_config.json", "is a LoRA adapter"),
        ("model.safetensors", "pytorch_model.bin", r"convert the \.bin files"),
    ],
)
def test_what_is_not_a_model_is_told_what_it_lacks(model: Path, missing: str, instead: str, message: str):
    (model / missing).rename(model / (instead or "something else"))
    with pytest.raises(UsageError, match=message):
        check_model_path(str(model))


def test_a_file_is_no_model(model: Path):
    with pytest.raises(UsageError, match="is a file"):
        check_model_path(str(model / "config.json"))


def test_missing_shards_are_counted(model: Path):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (model / "model.safetensors").rename(model / "model-1.safetensors")
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"1 of 2 weight files are missing, the first is model-2\.safetensors"):
        check_model_path(str(model))


def test_weights_are_an_adapter_or_a_whole_model(model: Path, tmp_path: Path):
    assert check_weights(model, UsageError) == model
    for nothing in (tmp_path / "nowhere", model / "config.json"):
        with pytest.raises(
            UsageError, match=r"is neither an adapter nor a whole model: it has no adapter_config\.json and no"
        ):
            check_weights(nothing, UsageError)
    (model / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"is not a whole model: model\.safetensors is missing"):
        check_weights(model, UsageError)
    (model / "adapter_config.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a finished adapter"):
        check_weights(model, UsageError)


def test_the_base_of_a_whole_model_is_in_its_folder(model: Path):
    with pytest.raises(
        UsageError, match=r"does not say which model it was trained from: write .* into .*ratchet\.json"
    ):
        base_of(model)
    (model / "ratchet.json").write_text('{"base_model": "owner/name"}')
    assert base_of(model) == "owner/name"


def test_a_damaged_adapter_configuration_is_one_clear_error(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text("[]")
    (tmp_path / "adapter_model.safetensors").write_text("")
    with pytest.raises(UsageError, match="cannot be read"):
        base_of(tmp_path)


@pytest.mark.parametrize(
    ("config", "scores"),
    [
        ('{"architectures": ["Qwen2ForSequenceClassification"]}', True),
        ('{"architectures": ["Qwen2ForCausalLM"]}', False),
        ('{"architectures": null}', False),
        ("[]", False),
        ("no JSON", False),
    ],
)
def test_a_whole_model_with_a_head_scores_answers(model: Path, config: str, scores: bool):
    (model / "config.json").write_text(config)
    assert is_reward_model(model) is scores


def test_a_tokenizer_without_a_chat_template_says_what_to_do(tiny_base: Path, tmp_path: Path):
    shutil.copytree(tiny_base, tmp_path, dirs_exist_ok=True)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(TrainingFailed, match="choose its instruct variant"):
        loading.load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_damaged_model_is_one_clear_error(tiny_base: Path, tmp_path: Path, name: str):
    shutil.copytree(tiny_base, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes(b"\0 not what it says")
    with pytest.raises(TrainingFailed, match="cannot load the model of"):
        loading.load_base(str(tmp_path))
