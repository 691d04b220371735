"""export_model on one trained version, and on its bare checkpoint."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.ends import ends_of
from tests.commands.site import Site
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.export.ollama_double import OllamaDouble, ollama_double

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def trained(briefly_trained_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return briefly_trained_site.copy(tmp_path_factory.mktemp("trained") / "data")


@pytest.fixture
def ollama(tmp_path: Path) -> Iterator[OllamaDouble]:
    with ollama_double(tmp_path / "blobs") as server:
        yield server


def adapter(site: Site) -> Path:
    return next((site.data / "models" / "support-chat").glob("v*/adapter"))


@pytest.mark.parametrize("level", ["f16", "q4_k_m"])
def test_a_gguf_is_written_that_llama_cpp_loads(trained, level):
    document = trained.json("export_model", "--agent", "support-chat", "--quantization", level)
    path = Path(document["path"])
    assert path.suffix == ".gguf"
    assert len(greedy_tokens(path, "Where is my parcel?", 8)) == 8
    sizes = trained.query("SELECT size_bytes FROM rl_artifact WHERE kind = 'gguf' AND quantization = ?", level)
    assert sizes == [(path.stat().st_size,)]


@pytest.mark.parametrize(("kind", "file"), [("merged", "model.safetensors"), ("lora", "adapter_model.safetensors")])
def test_directories_are_exported_too(trained, kind, file):
    document = trained.json("export_model", "--agent", "support-chat", "--format", kind)
    assert (Path(document["path"]) / file).exists()


def test_a_checkpoint_is_exported_under_the_given_name(trained, tmp_path):
    document = trained.json(
        "export_model", "--checkpoint", str(adapter(trained)), "--model-name", "my-chat", "--output", str(tmp_path)
    )
    assert Path(document["path"]) == tmp_path / "gguf" / "my-chat-f16.gguf"


def test_what_cannot_be_exported_is_one_clear_error(trained: Site, tmp_path: Path):
    lost = shutil.copytree(adapter(trained), tmp_path / "lost")
    config = json.loads((lost / "adapter_config.json").read_text())
    (lost / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(tmp_path / "gone")}))
    refused = {
        ("--agent", "support-chat", "--quantization", "q9"): "q9",
        ("--agent", "support-chat", "--model-name", "../up"): "model name",
        ("--checkpoint", "/nowhere"): "is neither an adapter nor a whole model",
        ("--checkpoint", str(lost), "--output", str(tmp_path)): str(tmp_path / "gone"),  # the base model of an adapter
    }
    ends = ends_of(trained, *[("export_model", *arguments) for arguments in refused])
    for (code, told), complaint in zip(ends, refused.values(), strict=True):
        assert (code, complaint in told, "Traceback" in told) == (2, True, False), told
    assert not list(tmp_path.glob("gguf/*"))


def test_people_read_the_figures_and_the_card_says_what_it_learned_from_and_how_it_did(trained: Site):
    told = trained.run("export_model", "--agent", "support-chat", "--format", "gguf-lora").stdout
    assert "tensor_types: F16 28" in told
    assert "{" not in told
    [(name,)] = trained.query("SELECT path FROM rl_artifact WHERE kind = 'gguf-lora'")
    path = trained.data / name
    card = path.with_suffix(".md").read_text()
    [(fingerprint,)] = trained.query("SELECT content_hash FROM rl_trainingset")
    for expected in (
        fingerprint,
        "| raters | ",
        "| agreement between raters | ",
        "| this version | ",
        "| beta | 0.1 |",
    ):
        assert expected in card
    assert hashlib.sha256(path.read_bytes()).hexdigest() in card


def test_merge_is_short_for_the_merged_format(trained: Site, tmp_path: Path):
    command = ("export_model", "--checkpoint", str(adapter(trained)), "--merge", "--output", str(tmp_path))
    document = trained.json(*command, "--model-name", "my-chat")
    assert (document["format"], document["path"]) == ("merged", str(tmp_path / "merged"))
    told = trained.run(*command, "--model-name", "your-chat", expect=2).stderr
    assert f"{tmp_path}/merged holds the model my-chat: give another --output" in told


def test_the_base_model_of_a_checkpoint_can_be_given(trained: Site, tmp_path: Path):
    lost = shutil.copytree(adapter(trained), tmp_path / "lost")
    config = json.loads((lost / "adapter_config.json").read_text())
    (lost / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": None}))
    base = ("--base-model", str(trained.data / "base_models" / "tiny"))
    document = trained.json("export_model", "--checkpoint", str(lost), *base, "--format", "lora")
    assert (Path(document["path"]) / "README.md").exists()


def test_a_version_is_registered_with_ollama(trained: Site, ollama: OllamaDouble):
    command = ("export_model", "--agent", "support-chat", "--register", "--quantization", "q8_0")
    document = trained.json(*command, "--model-name", "helper:new", OLLAMA_URL=ollama.url)
    assert document["details"]["registered"] == "helper:new"
    assert ollama.models["helper:new"]["template"]
    assert trained.query("SELECT target FROM rl_deployment WHERE model_name = 'helper:new'") == [("ollama",)]


def test_what_can_be_served_is_listed_with_its_size(trained: Site, ollama: OllamaDouble):
    command = ("export_model", "--agent", "support-chat", "--register", "--quantization", "q4_0")
    path = Path(trained.json(*command, "--model-name", "listed", OLLAMA_URL=ollama.url)["path"])
    listing = trained.json("export_model", "--list-models", OLLAMA_URL=ollama.url)
    assert {"path": str(path), "megabytes": round(path.stat().st_size / 1e6, 1)} in listing["gguf"]
    assert "listed:latest" in [model["name"] for model in listing["ollama"]]
    told = trained.run("export_model", "--list-models", OLLAMA_URL="http://127.0.0.1:9").stdout
    assert path.name in told
    assert "Ollama does not answer at http://127.0.0.1:9" in told


def test_a_checkpoint_is_registered_with_ollama(trained: Site, ollama: OllamaDouble, tmp_path: Path):
    command = ("export_model", "--checkpoint", str(adapter(trained)), "--register", "--output", str(tmp_path))
    document = trained.json(*command, "--model-name", "bare", OLLAMA_URL=ollama.url)
    assert document["details"]["registered"] == "bare"
    digest = hashlib.sha256(Path(document["path"]).read_bytes()).hexdigest()
    assert list(ollama.models["bare:latest"]["files"].values()) == [f"sha256:{digest}"]


def test_what_cannot_be_registered_is_told_before_any_work(trained: Site):
    refused = {
        ("--register", "--merge"): (2, "--register goes with --format gguf"),
        ("--register",): (1, "Ollama does not answer at http://127.0.0.1:9"),
        ("--base-model", "x"): (2, "--base-model goes with --checkpoint"),
    }
    commands = [("export_model", "--agent", "support-chat", *arguments) for arguments in refused]
    ends = ends_of(trained, *commands, OLLAMA_URL="http://127.0.0.1:9")
    for (code, told), (expected, complaint) in zip(ends, refused.values(), strict=True):
        assert (code, complaint in told) == (expected, True), told
        assert "merge" not in told.splitlines()[0]


def test_a_whole_model_is_trained_measured_and_exported(site: Site):
    chosen = ("--full", "--learning-rate", "1e-4", "--val-split", "0.3", "--epochs", "3")
    document = site.json("train_dpo", "--agent", "support-chat", *chosen, "--export", "--quantization", "f16")
    artifacts = document["artifacts"]
    assert artifacts.keys() == {"model", "gguf"}
    assert document["evaluation"]["models"]["new"]["accuracy"]["value"] > 0.85
    assert len(greedy_tokens(site.data / artifacts["gguf"], "Where is my parcel?", 8)) == 8
