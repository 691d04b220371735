"""An export leaves files for their owner alone; one that is killed leaves nothing past the next start."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.commands.ends import ends_of
from tests.commands.forked import Forked
from tests.commands.site import Site, serving
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]
FORMATS = ["gguf", "merged", "lora", "gguf-lora", "onnx"]


@pytest.fixture(scope="module")
def trained(briefly_trained_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return briefly_trained_site.copy(tmp_path_factory.mktemp("trained") / "data")


def half_written(site: Site) -> list[Path]:
    return sorted(site.data.rglob(".*.partial"))


def has_begun(site: Site) -> bool:
    return any(list(folder.iterdir()) for folder in half_written(site) if folder.is_dir())


def in_the_middle(site: Site, kind: str) -> Forked:
    """An export that stands still with something in one of its hidden folders. One that was too fast is made again."""
    while True:
        process = site.fork("export_model", "--agent", "support-chat", "--format", kind)
        until(lambda process=process: has_begun(site) or process.returncode is not None, 600, every=0.005)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGSTOP)
            if has_begun(site):
                return process
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("kind", ["gguf", "onnx"])
def test_what_a_killed_export_left_is_gone_when_the_site_starts(trained: Site, kind: str):
    process = in_the_middle(trained, kind)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert half_written(trained)
    with serving(trained):
        assert half_written(trained) == []


def test_the_site_leaves_alone_what_is_being_exported(trained: Site):
    """The export waits in its middle until the site has started."""
    process = in_the_middle(trained, "merged")
    before = half_written(trained)
    with serving(trained):
        assert half_written(trained) == before
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=1800)
    assert (process.returncode, half_written(trained)) == (0, []), errors


def test_every_file_is_for_its_owner_alone(trained: Site):
    exports = [("export_model", "--agent", "support-chat", "--format", kind) for kind in FORMATS]
    rows = ("--agent-type", "support-chat", "--format", "dpo", "--output", str(trained.data / "rows.jsonl"))
    ends = ends_of(trained, *exports, ("export_training_data", *rows), ("backup",))
    assert [code for code, _ in ends] == [0] * len(ends), ends
    modes = {path: path.lstat().st_mode & 0o777 for path in (trained.data, *trained.data.rglob("*"))}
    suffixes = {path.suffix for path in modes}
    assert suffixes >= {".gguf", ".safetensors", ".onnx", ".json", ".jsonl", ".md", ".tar", ".txt", ".sqlite3"}
    assert {f"{path}: {mode:o}" for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == set()
