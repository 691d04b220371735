"""What the client asks of a server, on the double; and on a real one too where OLLAMA_HOST names one that answers."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rl.base.errors import ExportFailed
from rl.base.records import silent
from rl.export.gguf.export import convert
from rl.export.ollama.deployer import OllamaDeployer
from tests.export.ollama_double import ollama_double

pytestmark = pytest.mark.learn

TEMPLATE = "{{ range .Messages }}{{ .Content }}{{ end }}"


def real_address() -> str:
    """Empty when there is none, or when it does not answer."""
    host = os.environ.get("OLLAMA_HOST", "")
    if not host:
        return ""
    url = host if "://" in host else f"http://{host}"
    try:
        OllamaDeployer(url, timeout=3).version()
    except ExportFailed:
        return ""
    return url


@pytest.fixture(params=["double", "real"])
def ollama(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OllamaDeployer]:
    if request.param == "double":
        with ollama_double(tmp_path / "blobs") as double:
            yield OllamaDeployer(double.url)
    elif url := real_address():
        yield OllamaDeployer(url)
    else:
        pytest.skip("OLLAMA_HOST names no server that answers")


@pytest.fixture
def name(ollama: OllamaDeployer) -> Iterator[str]:
    """Of a model that is gone afterwards, and its copy too."""
    name = f"ratchet-test-{uuid.uuid4().hex[:12]}"
    yield name
    for each in (f"{name}:v1", f"{name}:copy"):
        with suppress(ExportFailed):
            ollama.delete(each)


@pytest.fixture(scope="module")
def gguf_file(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    convert(tiny_model("llama"), path, "f16", "tiny", silent)
    return path


def names(ollama: OllamaDeployer) -> set[str]:
    return {model.name for model in ollama.list()}


def test_a_model_is_registered_shown_copied_and_deleted(ollama: OllamaDeployer, name: str, gguf_file: Path):
    assert ollama.version()
    assert ollama.show(f"{name}:v1") is None
    ollama.register(
        f"{name}:v1", gguf_file, template=TEMPLATE, system="Be kind.", parameters={"num_ctx": 64, "stop": ["x"]}
    )
    shown = ollama.show(f"{name}:v1")
    assert shown is not None
    assert shown["template"] == TEMPLATE
    assert "num_ctx" in shown["parameters"]
    assert next(model.quantization for model in ollama.list() if model.name == f"{name}:v1") == "F16"
    ollama.copy(f"{name}:v1", f"{name}:copy")
    ollama.delete(f"{name}:v1")
    assert {f"{name}:v1", f"{name}:copy"} & names(ollama) == {f"{name}:copy"}


def test_a_model_that_is_unloaded_is_not_in_memory(ollama: OllamaDeployer, name: str, gguf_file: Path):
    ollama.register(f"{name}:v1", gguf_file, template=TEMPLATE, parameters={"num_ctx": 64})
    with ollama._asking("to load") as client:
        client.generate(f"{name}:v1")
    assert [(model.name, model.context_length) for model in ollama.running() if name in model.name] == [
        (f"{name}:v1", 64)
    ]
    ollama.unload(f"{name}:v1")
    assert not any(name in model.name for model in ollama.running())


def test_a_model_that_is_not_there_is_refused_by_name(ollama: OllamaDeployer, name: str):
    for refused in (ollama.delete, ollama.unload):
        with pytest.raises(ExportFailed, match=f"Ollama refused to .*{name}.* not found"):
            refused(f"{name}:v1")
    with pytest.raises(ExportFailed, match="not found"):
        ollama.copy(f"{name}:v1", f"{name}:copy")


def test_what_is_no_model_is_refused(ollama: OllamaDeployer, name: str, tmp_path: Path):
    (tmp_path / "text.gguf").write_bytes(b"hello")
    with pytest.raises(ExportFailed, match="refused to create .*the file is not a GGUF model"):
        ollama.register(f"{name}:v1", tmp_path / "text.gguf", template=TEMPLATE)
    assert f"{name}:v1" not in names(ollama)
