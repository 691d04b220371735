import importlib.util
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.records import silent
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.export.gguf.export import convert
from rl.lm.base_models import BUILDERS, folder_of, loaded_name, local_folder, require, resolve, tokenizer_file

pytestmark = pytest.mark.learn


def test_every_embedded_model_has_a_builder():
    assert set(BUILDERS) == set(EMBEDDED_MODELS)
    assert all(callable(leaf(path).build) for path in BUILDERS.values())


def test_an_embedded_model_is_built_once(data_dir: Path):
    folder = Path(resolve("tiny", silent))
    built = (folder / "config.json").stat().st_mtime_ns
    assert folder == folder_of("tiny") == local_folder("tiny")
    assert Path(resolve("tiny", silent)) == folder
    assert (folder / "config.json").stat().st_mtime_ns == built


def test_a_gguf_file_is_unpacked_once_and_again_where_it_is_another(data_dir: Path, tiny_base: Path, tmp_path: Path):
    file = tmp_path / "my.gguf"
    convert(tiny_base, file, "q8_0", "mine", silent)
    folder = Path(resolve(str(file), silent))
    assert folder == local_folder(str(file)) == Path(loaded_name(str(file)))
    assert folder.parent == data_dir / "base_models"
    assert folder.name.startswith("my-")
    assert Path(resolve(str(file), silent)) == folder
    convert(tiny_base, file, "f16", "mine", silent)
    assert Path(resolve(str(file), silent)) != folder


def test_a_gguf_file_that_is_not_there_is_refused(data_dir: Path):
    with pytest.raises(UsageError, match=r"no base model at /nowhere/my\.gguf: there is no such file"):
        resolve("/nowhere/my.gguf", silent)


def in_the_hub_cache(cache: Path, revision: str) -> Path:
    snapshot = cache / "models--owner--name" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    return snapshot


def test_a_pinned_revision_is_the_hubs_snapshot_of_it(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    revision = "a" * 40
    snapshot = in_the_hub_cache(tmp_path, revision)
    assert local_folder(f"owner/name@{revision}") == snapshot
    assert loaded_name(f"owner/name@{revision}") == str(snapshot)
    assert loaded_name("owner/name") == "owner/name"


def test_a_pinned_revision_that_cannot_be_fetched_is_told_in_one_line(data_dir: Path):
    with pytest.raises(UsageError, match="cannot fetch owner/name at the revision 'v1'") as refusal:
        resolve("owner/name@v1", silent)
    assert "\n" not in str(refusal.value)


def test_a_model_that_is_here_needs_no_hub(data_dir: Path, tiny_base: Path, tmp_path: Path, monkeypatch):
    require("tiny")
    require(str(tiny_base))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    in_the_hub_cache(tmp_path, "a" * 40)
    require(f"owner/name@{'a' * 40}")


@pytest.mark.parametrize("name", ["minimind-base", "nobody/nothing", "nobody/nothing@v1"])
def test_a_misspelt_model_is_refused_before_anything_is_built(data_dir: Path, name: str):
    with pytest.raises(UsageError, match=f"there is no base model {name}: neither a folder here nor on the hub"):
        require(name)
    assert not (data_dir / "base_models").exists()


def test_a_tokenizer_is_not_there_where_the_package_that_reads_it_is_missing(tmp_path: Path, monkeypatch):
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    assert tokenizer_file(tmp_path) == file
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tokenizer_file(tmp_path) is None
