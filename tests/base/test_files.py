import errno
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rl.base.files import (
    publish_directory,
    remove,
    remove_leftovers,
    scratch_directory,
    staged_directory,
    staged_file,
    write_text,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def break_off(staged: AbstractContextManager[Path], error: Exception) -> None:
    with staged as partial:
        (partial / "half" if partial.is_dir() else partial).write_bytes(b"half")
        raise error


def folder(path: Path, file: str) -> Path:
    path.mkdir()
    (path / file).write_text(file)
    return path


def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path):
    final = tmp_path / "model.gguf"
    with staged_file(final) as partial:
        partial.write_bytes(b"weights")
        assert not final.exists()
    assert final.read_bytes() == b"weights"
    assert names(tmp_path) == ["model.gguf"]


def test_a_text_replaces_the_earlier_one(tmp_path: Path):
    for text in ("earlier", "Größe\n"):
        write_text(tmp_path / "report.json", text)
    assert (tmp_path / "report.json").read_bytes() == "Größe\n".encode()
    assert names(tmp_path) == ["report.json"]


def test_after_a_failure_the_earlier_file_is_there_and_nothing_else(tmp_path: Path):
    final = tmp_path / "pairs.jsonl"
    final.write_bytes(b"earlier")
    with pytest.raises(KeyError, match="a bug"):
        break_off(staged_file(final), KeyError("a bug"))
    assert final.read_bytes() == b"earlier"
    assert names(tmp_path) == ["pairs.jsonl"]


def test_a_folder_replaces_the_earlier_one_whole(tmp_path: Path):
    final = folder(tmp_path / "merged", "old")
    with staged_directory(final) as partial:
        (partial / "new").write_text("new")
        assert names(final) == ["old"]
    assert names(final) == ["new"]
    assert names(tmp_path) == ["merged"]


def test_a_folder_half_written_is_gone_after_a_failure(tmp_path: Path):
    final = folder(tmp_path / "merged", "old")
    with pytest.raises(KeyError, match="a bug"):
        break_off(staged_directory(final), KeyError("a bug"))
    assert names(final) == ["old"]
    assert names(tmp_path) == ["merged"]


def test_a_scratch_folder_stays_only_where_it_was_published(tmp_path: Path):
    for kept in ("kept", None):
        with scratch_directory(tmp_path / "set") as partial:
            (partial / "rows").write_text("row")
            if kept:
                publish_directory(partial, tmp_path / kept)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["rows"]


def test_an_earlier_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path: Path, monkeypatch):
    source, target = folder(tmp_path / "source", "new"), folder(tmp_path / "target", "old")
    replace = Path.replace

    def refuse_the_new_one(path: Path, to: Path) -> Path:
        if path == source:
            raise OSError("refused")
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", refuse_the_new_one)
    with pytest.raises(OSError, match="refused"):
        publish_directory(source, target)
    assert names(target) == ["old"]
    assert names(tmp_path) == ["source", "target"]


def test_what_a_killed_process_left_is_removed_at_once_and_nothing_else(tmp_path: Path):
    left = [f".merged.{'0' * 32}.partial", f".old.gguf.{'e' * 32}.partial"]
    kept = [f".model.gguf.{'f' * 32}.partial", ".mine.partial", "download.partial", f"merged.{'0' * 32}.partial"]
    folder(tmp_path / left[0], "half")
    for name in (left[1], *kept):
        (tmp_path / name).write_bytes(b"somebody's, and a plain file that nobody can hold")
    for name in (left[1], *kept[1:]):
        os.utime(tmp_path / name, (time.time() - 2 * 86400,) * 2)
    write_text(tmp_path / "report.json", "{}")
    assert names(tmp_path) == sorted([*kept, "report.json"])


@pytest.mark.process
def test_what_a_living_process_writes_stays_until_it_is_killed(tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; from rl.base.files import staged_directory\n"
        "with staged_directory(Path(sys.argv[1])) as folder: (folder / 'half').touch(); print(flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "merged")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        assert remove_leftovers(tmp_path) == []
        child.kill()
    (left,) = tmp_path.iterdir()
    assert (remove_leftovers(tmp_path), names(tmp_path)) == ([left], [])


def test_threads_do_not_take_each_others_work_for_left(tmp_path: Path):
    with scratch_directory(tmp_path / "one") as one, scratch_directory(tmp_path / "one") as other:
        assert remove_leftovers(tmp_path) == []
        assert len({one, other} & set(tmp_path.iterdir())) == 2


def test_where_there_are_no_locks_age_tells(tmp_path: Path, monkeypatch):
    def no_locks(*args: object) -> None:
        raise OSError(errno.EBADF, "as of a folder on NFS")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with scratch_directory(tmp_path / "set") as partial:
        assert remove_leftovers(tmp_path) == []
        os.utime(partial, (time.time() - 2 * 86400,) * 2)
        assert remove_leftovers(tmp_path) == [partial]


def test_what_is_published_is_for_its_owner_alone(tmp_path: Path):
    with staged_file(tmp_path / "model.gguf") as partial:
        partial.write_bytes(b"weights")
        partial.chmod(0o644)
    with staged_directory(tmp_path / "merged") as folder:
        (folder / "onnx").mkdir()
        (folder / "onnx" / "model.onnx").touch()
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"model.gguf": 0o600, "merged": 0o700, "onnx": 0o700, "model.onnx": 0o700}


def test_removing_takes_a_folder_a_file_a_link_or_nothing(tmp_path: Path):
    kept = folder(tmp_path / "kept", "file")
    folder(tmp_path / "folder", "file")
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(kept)
    for name in ("folder", "file", "link", "nothing"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert names(kept) == ["file"]
