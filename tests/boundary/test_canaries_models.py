"""No text in the files of a model, of an adapter, of judges or of MCP servers makes Ratchet import, run, open or ask for it
when they are read. Places are found in the files, and in the classes that read them."""

import json
import os
import pickle
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from peft import LoraConfig, get_peft_model

from rl.base.errors import BadFile, RatchetError, TrainingFailed, UsageError
from rl.environments.tools.mcp.settings import McpServer
from rl.evaluation.judges.servers import JudgeServer, servers
from rl.export.hf.loading import load_config, load_merged
from rl.lm import loading
from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS, base_of, is_reward_model, lowest_trained_layer
from tests.boundary import canaries
from tests.boundary.canaries import COMMAND, DOTTED, HUB_ID, MODULE, PATH, TEXTS, places, replaced
from tests.boundary.watching import TOKEN, Deed, Watch, watching

pytestmark = [pytest.mark.learn, pytest.mark.slow]
FORMS: dict[str, Any] = {"path": PATH, "module": DOTTED, "hub id": HUB_ID, "all": canaries.SETTINGS["all"]}
MODEL_FILES = ("config.json", "tokenizer_config.json", "generation_config.json")
MORE = {
    ADAPTER_CONFIG: [each.name for each in fields(LoraConfig)],
    "config.json": ["auto_map", "_name_or_path", "_attn_implementation", "attn_implementation", "quantization_config"]
    + ["tokenizer_class", "_commit_hash", "custom_pipelines", "adapter", "torch_dtype", "text_config", "base_model"],
    "tokenizer_config.json": [
        "auto_map",
        "name_or_path",
        "tokenizer_class",
        "tokenizer_file",
        "vocab_file",
        "chat_template",
    ]
    + ["added_tokens_decoder", "special_tokens_map_file", "backend", "processor_class", "extra_special_tokens"],
    "generation_config.json": ["cache_implementation", "cache_config", "watermarking_config", "assistant_model"],
}
"""Keys that libraries know, beside those that the files have."""


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """No name of the network is looked up either, whoever's it is."""

    def look_up(*arguments: Any, **options: Any) -> Any:
        raise Deed(f"looked up {arguments} after {watch.at}")

    with watching(tmp_path) as watch, patch.object(socket, "getaddrinfo", look_up):
        yield watch


@pytest.fixture
def adapter(tiny_base: Path, tmp_path: Path) -> Path:
    model = loading.load_base(str(tiny_base), "fp32")
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained(
        tmp_path / "adapter"
    )
    return tmp_path / "adapter"


def walk(file: Path, load: Callable[[], Any], watch: Watch) -> list[str]:
    """Tries every place of a JSON file, and keys that it does not have; what was done."""
    document, deeds = json.loads(file.read_text()), []
    tries = [(where, replaced(document, where, form)) for where in places(document) for form in FORMS.values()]
    tries += [
        ((key,), {**document, key: form})
        for key in {*MORE.get(file.name, ()), "url", "command", "func"} - {*document}
        for form in FORMS.values()
    ]
    for where, changed in tries:
        watch.at = f"{file.name} {where} {changed if not where else changed[where[0]]!r:.100}"
        file.write_text(json.dumps(changed))
        try:
            load()
        except RatchetError as error:
            require_line(error, watch.at)
        except Deed as deed:
            deeds.append(str(deed))
        except Exception as error:
            deeds.append(f"{type(error).__name__} {str(error)[:150]!r} after {watch.at}")
    file.write_text(json.dumps(document))
    return deeds


def require_line(error: RatchetError, at: str) -> None:
    assert len(str(error).splitlines()) == 1, at


def test_no_text_in_the_configuration_of_an_adapter_does_anything(adapter: Path, tiny_base: Path, watch: Watch):
    base = loading.load_base(str(tiny_base), "fp32")

    def load() -> None:
        with loading.with_weights(base, adapter):
            pass
        load_merged(str(tiny_base), adapter)
        is_reward_model(adapter), lowest_trained_layer(adapter)

    load()
    assert walk(adapter / ADAPTER_CONFIG, load, watch) == []
    config = json.loads((adapter / ADAPTER_CONFIG).read_text())
    watch.at = "two keys that have PEFT import a module"
    (adapter / ADAPTER_CONFIG).write_text(json.dumps({**config, "megatron_config": {"a": 1}, "megatron_core": DOTTED}))
    with pytest.raises(TrainingFailed):
        load()
    assert watch.deeds == []


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_model_that_names_a_program_of_the_hub_is_refused(key: str, tiny_base: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_base, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: f"{HUB_ID}:run"}))
    with pytest.raises(UsageError, match=f"names code of others in {key}"):
        loading.load_base(str(folder), "fp32")


@pytest.mark.parametrize("name", MODEL_FILES)
def test_no_text_in_the_files_of_a_model_does_anything(name: str, tiny_base: Path, tmp_path: Path, watch: Watch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_base, folder)
    if not (folder / name).exists():
        (folder / name).write_text("{}")

    def load() -> None:
        loading.load_tokenizer(str(folder))
        loading.load_base(str(folder), "fp32")
        load_config(str(folder))

    load()
    assert walk(folder / name, load, watch) == []


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "chat_template.jinja", "generation_config.json", "merges.txt"]
)
def test_a_pipe_among_the_files_of_a_model_is_not_waited_for(name: str, tiny_base: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_base, folder)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    for load in (loading.load_tokenizer, loading.load_base):
        with pytest.raises(BadFile, match="a pipe or a device"):
            load(str(folder))


# --- weights -----------------------------------------------------------------------------------------------------------


class Cry:
    """Leaves a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return open, (str(self.file), "w")


@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt", "pytorch_model.bin", ADAPTER_WEIGHTS])
@pytest.mark.parametrize("zipped", [True, False])
def test_weights_that_are_a_pickle_are_never_read(
    name: str, zipped: bool, adapter: Path, tiny_base: Path, tmp_path: Path
):
    (adapter / ADAPTER_WEIGHTS).unlink()
    if zipped:
        torch.save({"lora": Cry(tmp_path / "cried")}, adapter / name)
    else:
        (adapter / name).write_bytes(pickle.dumps(Cry(tmp_path / "cried")))
    model = loading.load_base(str(tiny_base), "fp32")
    with pytest.raises(TrainingFailed) as caught, loading.with_weights(model, adapter):
        pass
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "cried").exists()


def safetensors(header: bytes, weights: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + weights


def lies(sound: bytes) -> Iterator[tuple[str, bytes]]:
    (length,) = struct.unpack("<Q", sound[:8])
    header, weights = json.loads(sound[8 : 8 + length]), sound[8 + length :]
    first, second, *_ = [name for name in header if name != "__metadata__"]

    def changed(**fields: Any) -> bytes:
        return safetensors(json.dumps({**header, first: {**header[first], **fields}}).encode(), weights)

    for at in (0, 1, 7, 8, 9, length, 8 + length, len(sound) - 1):
        yield f"cut off after {at} bytes", sound[:at]
    for wrong in (0, 1, length - 1, length + 1, 2**31, 2**40, 2**63, 2**64 - 1):
        yield f"a header of {wrong} bytes", safetensors(sound[8 : 8 + length], weights, wrong)
    for text in (b"", b"{}", b"null", b"[]", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b'{"a": 1}', b"{" * 1000):
        yield f"the header {text[:10]!r}", safetensors(text, weights)
    for dtype in ("F4", "I64", "BOOL", "nonsense", None, 7, "F64", PATH):
        yield f"dtype {dtype}", changed(dtype=dtype)
    for shape in ([0], [2**63, 2], [-1], [2**32, 2**32], ["x"], None, [], [1] * 10_000, [1.5]):
        yield f"shape {str(shape)[:30]}", changed(shape=shape)
    for offsets in (
        [0, 0],
        [5, 1],
        [-1, 5],
        [0, 2**63],
        [2**63, 2**64],
        header[second]["data_offsets"],
        [0],
        None,
        ["a"],
    ):
        yield f"offsets {offsets}", changed(data_offsets=offsets)
    yield "junk behind it", sound + b"junk"
    yield "a tensor that nobody knows", safetensors(json.dumps({**header, PATH: header[first]}).encode(), weights)
    yield "other data about itself", safetensors(json.dumps({**header, "__metadata__": {"a": 1}}).encode(), weights)


def test_weights_that_lie_are_one_line(adapter: Path, tiny_base: Path, watch: Watch):
    file, model = adapter / ADAPTER_WEIGHTS, loading.load_base(str(tiny_base), "fp32")
    for name, data in lies(file.read_bytes()):
        watch.at = name
        file.write_bytes(data)
        with pytest.raises(TrainingFailed) as caught, loading.with_weights(model, adapter):
            pass
        assert len(str(caught.value).splitlines()) == 1, name
    assert watch.deeds == []


def test_weights_of_a_model_that_lie_are_one_line(tiny_base: Path, tmp_path: Path, watch: Watch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_base, folder)
    for name, data in lies((folder / "model.safetensors").read_bytes()):
        watch.at = name
        (folder / "model.safetensors").write_bytes(data)
        try:
            loading.load_base(str(folder), "fp32")
        except RatchetError as error:
            require_line(error, name)
    assert watch.deeds == []


NOT_BESIDE = (PATH, "../weights.safetensors", "/etc/passwd", f"{TOKEN}/../../x", "", None, 7, ["x"], "a\0b")


@pytest.mark.parametrize("file", NOT_BESIDE, ids=range(len(NOT_BESIDE)))
def test_an_index_names_files_of_its_own_folder(file: Any, tiny_base: Path, tmp_path: Path, watch: Watch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_base, folder)
    (folder / "model.safetensors").rename(tmp_path / "weights.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"a": file}}))
    with pytest.raises(UsageError, match="is not a whole model"):
        loading.load_base(str(folder), "fp32")
    assert watch.deeds == []


# --- settings ----------------------------------------------------------------------------------------------------------


def test_reading_who_may_judge_does_nothing_of_what_it_says(settings: Any, tmp_path: Path, watch: Watch):
    settings.JUDGES_FILE = str(tmp_path / "judges.yaml")
    sound = {"careful": {"url": "https://judge.example/v1", "model": "big"}}
    names = {each.name for each in fields(JudgeServer)} | {*canaries.KEYS}
    for name in names:
        for form in canaries.FOR_TRAINING.values():
            watch.at = f"JUDGES_FILE {name} {form}"
            Path(settings.JUDGES_FILE).write_text(json.dumps({"careful": {**sound["careful"], name: form}}))  # is YAML
            read_judges()
    for tag in (
        "python/object/apply:os.system",
        "python/name:os.system",
        "python/module:os",
        f"python/module:{MODULE}",
    ):
        watch.at = f"JUDGES_FILE {tag}"
        Path(settings.JUDGES_FILE).write_text(f"careful: !!{tag} [{COMMAND[0]}]\n")
        read_judges()
    assert watch.deeds == []


def read_judges() -> None:
    try:
        servers()
    except RatchetError as error:
        require_line(error, "JUDGES_FILE")


def test_reading_which_mcp_servers_there_are_starts_and_asks_none(tmp_path: Path, watch: Watch):
    for sound in (canaries.SERVER, canaries.REMOTE):
        for key in {*sound, *(each.name for each in fields(McpServer)), *canaries.KEYS}:
            for form in (*canaries.FOR_TRAINING.values(), *TEXTS.values(), None, 7, [], {}):
                watch.at = f"MCP {key} {form}"
                try:
                    McpServer.of("shop", {**sound, key: form})
                except RatchetError as error:
                    require_line(error, watch.at)
    assert watch.deeds == []


def test_the_base_model_of_an_adapter_is_a_name_and_is_asked_of_nobody(adapter: Path, tmp_path: Path, watch: Watch):
    config = json.loads((adapter / ADAPTER_CONFIG).read_text())
    for form in FORMS.values():
        (adapter / ADAPTER_CONFIG).write_text(json.dumps({**config, "base_model_name_or_path": form}))
        try:
            base_of(adapter)
        except RatchetError as error:
            require_line(error, str(form))
    assert watch.deeds == []
