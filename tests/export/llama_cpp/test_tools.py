import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rl.base.errors import ExportFailed, Interrupted
from rl.base.records import Report, silent
from rl.export.llama_cpp import tools as llama_cpp_tools
from rl.export.llama_cpp.tools import checkout, convert_script, quantize_program, run_program, run_script
from tests.export.llama_cpp_doubles import program


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))


def quantise_by(code: str, folder: Path, report: Report = silent) -> None:
    """By a program that runs the code."""
    path = program(folder, "llama-quantize", code)
    (folder / "in.gguf").touch()
    run_program(str(path), folder / "in.gguf", folder / "out.gguf", "q4_k_m", 2, report)


def test_without_the_variable_there_is_no_checkout():
    assert checkout() is convert_script() is quantize_program() is None


@pytest.mark.parametrize("value", ["/no/such/folder", __file__])
def test_a_variable_that_names_no_folder_is_told(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLAMA_CPP_DIR", value)
    with pytest.raises(ExportFailed, match="LLAMA_CPP_DIR is .*, which is not a folder"):
        checkout()


def test_a_folder_without_the_script_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLAMA_CPP_DIR", str(tmp_path))
    with pytest.raises(ExportFailed, match=r"has no convert_hf_to_gguf.py: set it to a checkout"):
        convert_script()


def test_the_program_on_the_path_comes_before_the_one_built_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLAMA_CPP_DIR", str(tmp_path))
    built = program(tmp_path / "build" / "bin", "llama-quantize", "")
    assert quantize_program() == str(built)
    on_path = program(tmp_path / "path", "llama-quantize", "")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert quantize_program() == str(on_path)


@pytest.mark.process
def test_it_gets_its_arguments_and_none_of_our_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    quantise_by("json.dump([sys.argv[1:], sorted(os.environ), os.getcwd()], open(sys.argv[2], 'w'))", tmp_path)
    source, destination = tmp_path / "in.gguf", tmp_path / "out.gguf"
    arguments, variables, folder = json.loads(destination.read_text())
    assert arguments == [str(source), str(destination), "Q4_K_M", "2"]
    assert "PATH" in variables
    assert "SECRET_KEY" not in variables
    assert folder == str(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("print('reading'); print('no such type'); sys.exit(3)", r"llama-quantize failed \(3\): no such type"),
        ("os.kill(os.getpid(), 9)", r"llama-quantize failed \(-9\): it said nothing"),
        ("print('all done')", r"llama-quantize failed \(0\): all done"),
    ],
)
def test_a_program_that_fails_is_told_by_its_last_line(code: str, what: str, tmp_path: Path):
    with pytest.raises(ExportFailed, match=what):
        quantise_by(code, tmp_path)


@pytest.mark.process
def test_a_program_that_cannot_be_started_is_told(tmp_path: Path):
    (tmp_path / "in.gguf").touch()
    with pytest.raises(ExportFailed, match="cannot start /no/such/program: No such file"):
        run_program("/no/such/program", tmp_path / "in.gguf", tmp_path / "out.gguf", "q4_k_m", 2)


@pytest.mark.process
def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(llama_cpp_tools, "_BASE_SECONDS", 0.5)
    with pytest.raises(ExportFailed, match="llama-quantize was not done within 0 s"):
        quantise_by("import time; time.sleep(60)", tmp_path)


@pytest.mark.process
def test_a_run_that_is_cancelled_ends_the_program_and_leaves_no_process(tmp_path: Path):
    code = "import time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"

    def cancel(event: str, values: dict[str, Any]) -> None:
        assert event == "waiting"
        if (tmp_path / "pid").exists():
            raise Interrupted("cancelled")

    with pytest.raises(Interrupted):
        quantise_by(code, tmp_path, cancel)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.process
def test_the_script_runs_in_our_python(tmp_path: Path):
    script = tmp_path / "convert_hf_to_gguf.py"
    script.write_text("import sys\nopen(sys.argv[3], 'w').write(' '.join([sys.executable, *sys.argv[1:]]))\n")
    run_script(script, tmp_path / "model", tmp_path / "out.gguf", "bf16", "tiny")
    assert (tmp_path / "out.gguf").read_text().split() == [
        sys.executable,
        str(tmp_path / "model"),
        "--outfile",
        str(tmp_path / "out.gguf"),
        "--outtype",
        "bf16",
        "--model-name",
        "tiny",
    ]
