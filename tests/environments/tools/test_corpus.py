from __future__ import annotations

from pathlib import Path

import pytest

from rl.base.errors import BadFile, UsageError
from rl.environments.tools import corpus
from rl.environments.tools.corpus import corpus_index, read_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "more" / ".hidden").mkdir(parents=True)
    (tmp_path / "b.txt").write_text("\ufeffthe second")
    (tmp_path / "a.MD").write_text("the first")
    (tmp_path / "more" / "c.jsonl").write_text(
        '{"text": "the third", "id": 3}\n\n{"text": "the fourth"}\n{"text": " "}\n'
    )
    (tmp_path / "more" / ".hidden" / "x.txt").write_text("a secret")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere.txt")
    return tmp_path


def test_a_folder_is_read_with_all_its_folders_in_order(folder: Path):
    assert read_corpus(folder) == ["the first", "the second", "the third", "the fourth"]


def test_a_file_is_a_corpus_too(folder: Path):
    assert read_corpus(folder / "b.txt") == ["the second"]
    assert read_corpus(folder / "more" / "c.jsonl") == ["the third", "the fourth"]


def test_an_index_is_made_once(folder: Path):
    assert corpus_index(folder) is corpus_index(folder)
    assert corpus_index(folder).best(["fourth"], 3, 100) == ["the fourth"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"text": 3}', "line 1.*a document must be an object with a text in 'text'"),
        ("[]", "line 1.*must be an object"),
        ('{"text": "x"}\n{', "line 2.*not valid JSON"),
    ],
)
def test_a_line_that_is_no_document_is_told(tmp_path: Path, content: str, told: str):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(BadFile, match=told):
        read_corpus(tmp_path)


def test_what_is_no_text_is_told(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match=r"a\.txt: is not UTF-8 text"):
        read_corpus(tmp_path)


def test_where_there_is_nothing_to_search_it_is_told(tmp_path: Path):
    with pytest.raises(UsageError, match="has no documents: .txt, .md or .jsonl files with text"):
        read_corpus(tmp_path)
    with pytest.raises(UsageError, match="must be a folder or a file, there is no "):
        read_corpus(tmp_path / "nowhere")
    (tmp_path / "a.pdf").touch()
    with pytest.raises(UsageError, match="must be a .txt, .md or .jsonl file, or a folder, not "):
        read_corpus(tmp_path / "a.pdf")


def test_a_corpus_that_would_fill_the_memory_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "MOST_DOCUMENTS", 3)
    with pytest.raises(UsageError, match="has more than 3 documents"):
        read_corpus(folder)
    with (folder / "large.txt").open("wb") as file:
        file.truncate(corpus.MOST_BYTES + 1)
    with pytest.raises(UsageError, match="has more than 64 MiB of documents"):
        read_corpus(folder)
