import hashlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from rl.base.errors import ExportFailed, Interrupted, UsageError
from rl.export.ollama.deployer import OllamaDeployer, check_model_name
from tests.export.ollama_double import OllamaDouble, ollama_double, serving
from tests.ports import reserve_port

pytestmark = pytest.mark.process


TEMPLATE = "{{ range .Messages }}{{ .Content }}{{ end }}"
SIZE = 3 * (1 << 20) + 5


class Listener:
    """A report that remembers, and may stop the work."""

    def __init__(self, stop_at: str = "") -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.stop_at = stop_at

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        self.events.append((event, values))
        if event == "step" and self.stages()[-1:] == [self.stop_at]:
            raise Interrupted("stopped by the test")

    def stages(self) -> list[str]:
        return [values["name"] for event, values in self.events if event == "stage"]

    def texts(self) -> list[str]:
        return [values["text"] for event, values in self.events if event == "log"]


@pytest.fixture
def double(tmp_path: Path) -> Iterator[OllamaDouble]:
    with ollama_double(tmp_path / "blobs") as server:
        yield server


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-q8_0.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * ((SIZE - 4) // 256) + b"x" * ((SIZE - 4) % 256))
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def register(double: OllamaDouble, gguf: Path, name: str = "support-v15", **options: Any) -> None:
    OllamaDeployer(double.url).register(name, gguf, template=TEMPLATE, **options)


def test_a_registered_model_has_the_file_the_template_and_the_parameters(double: OllamaDouble, gguf: Path):
    register(double, gguf, system="Be brief.", parameters={"num_ctx": 512, "stop": ["<|im_end|>"]})
    assert double.models == {
        "support-v15:latest": {
            "model": "support-v15",
            "files": {"model.gguf": f"sha256:{sha256(gguf)}"},
            "template": TEMPLATE,
            "system": "Be brief.",
            "parameters": {"num_ctx": 512, "stop": ["<|im_end|>"]},
            "stream": True,
        }
    }
    assert double.blob(f"sha256:{sha256(gguf)}").read_bytes() == gguf.read_bytes()


def test_what_is_not_given_is_not_sent_and_no_file_that_ollama_has(double: OllamaDouble, gguf: Path):
    register(double, gguf)
    assert set(double.models["support-v15:latest"]) == {"model", "files", "template", "stream"}
    listener = Listener()
    register(double, gguf, name="support:again", report=listener)
    assert sum(request.startswith("POST /api/blobs/") for request in double.requests) == 1
    assert "Ollama has tiny-q8_0.gguf already" in listener.texts()
    assert "support:again" in double.models


def test_the_upload_is_reported_chunk_by_chunk_so_that_a_run_keeps_beating(double: OllamaDouble, gguf: Path):
    listener = Listener()
    register(double, gguf, report=listener)
    assert listener.stages() == ["hashing the model file", "uploading to Ollama", "registering with Ollama"]
    assert all(len(stage) <= 32 for stage in listener.stages())
    steps = [(values["step"], values["total_steps"]) for event, values in listener.events if event == "step"]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)] * 2
    assert listener.texts()[-1] == "Ollama: success"


def test_a_large_file_is_never_in_memory(double: OllamaDouble, tmp_path: Path):
    large = tmp_path / "large.gguf"
    with large.open("wb") as handle:
        handle.write(b"GGUF")
        handle.truncate(40 << 20)
    program = (
        "import sys, tracemalloc; from pathlib import Path; from rl.export.ollama.deployer import OllamaDeployer\n"
        "import rl.export.ollama.client\n"
        "tracemalloc.start()\n"
        "OllamaDeployer(sys.argv[1]).register('large', Path(sys.argv[2]), template='{{ .Prompt }}')\n"
        "print(tracemalloc.get_traced_memory()[1])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, double.url, str(large)],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 8 << 20
    assert "large:latest" in double.models


def test_models_are_found_copied_and_deleted(double: OllamaDouble, gguf: Path):
    register(double, gguf)
    deployer = OllamaDeployer(double.url)
    assert (deployer.version(), deployer.show("support-v15") is None, deployer.show("other")) == ("0.0.0", False, None)
    deployer.copy("support-v15", "support:champion")
    deployer.delete("support-v15")
    assert [model.name for model in deployer.list()] == ["support:champion"]


def test_copying_or_deleting_what_is_not_there_says_so(double: OllamaDouble):
    deployer = OllamaDeployer(double.url)
    with pytest.raises(ExportFailed, match="Ollama refused to delete nope: model 'nope' not found"):
        deployer.delete("nope")
    with pytest.raises(ExportFailed, match='Ollama refused to copy nope to other: model "nope" not found'):
        deployer.copy("nope", "other")


@pytest.mark.parametrize("name", ["support", "Support_v15.2", "_x", "a:latest", "0" * 80, "a:" + "t" * 80])
def test_names_that_ollama_accepts_pass(name: str):
    assert check_model_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a b", ".hidden", "-x", "a/b", "a:", ":tag", "a:b:c", "é", "a\n", "0" * 81, "../up", "a:-t"]
)
def test_other_names_are_refused_before_anything_is_sent(double: OllamaDouble, gguf: Path, name: str):
    with pytest.raises(UsageError, match="Ollama model name .* is not usable"):
        register(double, gguf, name=name)
    assert double.requests == []


def test_a_template_is_refused_that_ollama_would_guess_or_cannot_parse(double: OllamaDouble, gguf: Path):
    with pytest.raises(UsageError, match="the template for support is empty"):
        OllamaDeployer(double.url).register("support", gguf, template=" \n")
    assert double.requests == []
    with pytest.raises(ExportFailed, match="template error: template: :1: unclosed action"):
        OllamaDeployer(double.url).register("support", gguf, template="{{ .Broken")


# --- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:11434", "ftp://host", "http://", "http://host:port", "http://me:secret@host", "http://h?x=1"]
)
def test_an_address_that_is_none_is_a_usage_error(url: str):
    with pytest.raises(UsageError, match="Ollama's address .*is not usable"):
        OllamaDeployer(url)


def test_a_server_that_is_down_is_named_with_what_to_do():
    url = f"http://127.0.0.1:{reserve_port()}"
    with pytest.raises(ExportFailed) as error:
        OllamaDeployer(url).version()
    assert str(error.value) == (
        f"Ollama does not answer at {url} (Connection refused): start it with 'ollama serve', or correct OLLAMA_URL"
    )


def test_a_server_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        url = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
        with pytest.raises(ExportFailed, match=r"said nothing for 0.2 s; see its log"):
            OllamaDeployer(url, timeout=0.2).version()


def answering(status: int, body: bytes = b"", **headers: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keeps the test's output clean."""

    return Handler


@pytest.mark.parametrize("handler", [answering(200, b"<html>"), answering(404), answering(200, b"[1]")])
def test_a_server_that_is_not_ollama_is_told_apart(handler: type[BaseHTTPRequestHandler], gguf: Path):
    with serving(handler) as url, pytest.raises(ExportFailed, match=r"is not Ollama \(HTTP \d+ .*correct OLLAMA_URL"):
        OllamaDeployer(url).register("support", gguf, template=TEMPLATE)


def test_redirects_are_not_followed(double: OllamaDouble):
    target = f"{double.url}/api/version"
    with (
        serving(answering(302, Location=target)) as url,
        pytest.raises(ExportFailed, match="redirects to .* OLLAMA_URL"),
    ):
        OllamaDeployer(url).version()
    assert double.requests == []


def test_something_that_speaks_no_http_is_one_line():
    def greet(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"220 mail.example ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet, args=(server,))
        thread.start()
        with pytest.raises(ExportFailed, match="broke off .Server disconnected"):
            OllamaDeployer(f"http://127.0.0.1:{server.getsockname()[1]}").version()
        thread.join()


# --- what goes wrong on the way ----------------------------------------------------------------------------------------
def test_an_upload_that_is_cut_leaves_nothing_and_can_be_repeated(double: OllamaDouble, gguf: Path):
    double.break_upload_after = 1 << 20
    with pytest.raises(ExportFailed, match="the connection to Ollama at .* broke off"):
        register(double, gguf)
    assert list(double.blobs.iterdir()) == []
    double.break_upload_after = None
    register(double, gguf)
    assert "support-v15:latest" in double.models


def test_a_person_may_stop_the_upload(double: OllamaDouble, gguf: Path):
    with pytest.raises(Interrupted):
        register(double, gguf, report=Listener(stop_at="uploading to Ollama"))
    assert double.models == {}
    register(double, gguf)
    assert "support-v15:latest" in double.models


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ({"disk_full": True}, "no space left on device .free space on the disk that holds Ollama's models"),
        ({"damage_uploads": True}, "refused the upload of tiny-q8_0.gguf: digest mismatch.*try again"),
        (
            {"fail_create": "llama runner process has\n terminated"},
            "refused to create support-v15: llama runner process has terminated$",
        ),
        (
            {"end_create_early": True},
            "stopped before support-v15 was created; the last it said was 'writing manifest'",
        ),
    ],
    ids=["a full disk, although it hangs up", "damaged on its way", "in the stream", "ends before success"],
)
def test_what_fails_on_the_server_is_said(double: OllamaDouble, gguf: Path, failure: dict[str, Any], said: str):
    vars(double).update(failure)
    with pytest.raises(ExportFailed, match=said):
        register(double, gguf)
    assert double.models == {}


def test_a_file_that_is_not_the_exported_one_any_more_is_not_sent(double: OllamaDouble, gguf: Path):
    with pytest.raises(ExportFailed, match="is not the file that was exported any more"):
        register(double, gguf, sha256="0" * 64)
    assert all(request == "GET /api/version" for request in double.requests)


def test_a_file_that_grows_meanwhile_is_not_registered(double: OllamaDouble, gguf: Path):
    class Appender(Listener):
        def __call__(self, event: str, values: dict[str, Any]) -> None:
            if event == "step" and values["step"] == 1:
                with gguf.open("ab") as handle:
                    handle.write(b"more")

    with pytest.raises(ExportFailed, match="changed while it was being read"):
        register(double, gguf, report=Appender())
    assert double.models == {}


def test_a_file_that_is_missing_or_no_gguf_is_refused(double: OllamaDouble, tmp_path: Path):
    with pytest.raises(ExportFailed, match="gone.gguf cannot be read: No such file or directory"):
        register(double, tmp_path / "gone.gguf")
    (tmp_path / "text.gguf").write_bytes(b"hello")
    with pytest.raises(ExportFailed, match="refused to create support-v15: unknown type .the file is not a GGUF model"):
        register(double, tmp_path / "text.gguf")


def test_importing_it_brings_no_package():
    program = (
        "import sys, rl.export.ollama.deployer\n"
        "print(sorted({'numpy', 'gguf', 'jinja2', 'torch', 'django', 'ollama', 'httpx'} "
        "& set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=60
    )
    assert result.stdout.strip() == "[]", result.stderr
