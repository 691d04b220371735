from pathlib import Path

import pytest

from rl.base.errors import BadFile, UsageError
from rl.environments.tools import search
from rl.environments.tools.search import DocumentIndex, SearchDocuments, corpus_index, read_corpus

CITIES = [
    "Bonn is a city on the Rhine.",
    "Paris is a city on the Seine.",
    "The Rhine rises in Switzerland, " + "far " * 300,
]


def test_the_best_passages_come_first_and_long_ones_are_cut():
    found = SearchDocuments(CITIES, most_results=2, most_characters=100).run("Which city is on the Rhine?")
    first, second = found.splitlines()
    assert first == "[1] Bonn is a city on the Rhine."
    assert len(second) <= 104


def test_other_documents_take_the_place_of_its_own_until_there_are_none():
    tool = SearchDocuments(CITIES[:1])
    tool.use(["Rome is a city on the Tiber."])
    assert tool.run("city") == "[1] Rome is a city on the Tiber."
    tool.use([])
    assert tool.run("city") == "[1] Bonn is a city on the Rhine."


@pytest.mark.parametrize("query", ['" OR 1', "NEAR(", "a AND NOT b*", "text:city", "';--", "()"])
def test_a_query_is_words_and_never_syntax(query: str):
    assert SearchDocuments(["nothing of it"]).run(query).startswith(("nothing found", "[1]"))


def test_a_query_without_words_or_hits_says_so():
    assert SearchDocuments(CITIES).run("?!") == "nothing found: the query has no words"
    assert SearchDocuments(CITIES).run("Tokyo") == "nothing found"
    assert SearchDocuments().run("Bonn") == "nothing found"


def test_several_tools_share_one_index():
    index = DocumentIndex(CITIES)
    first, second = SearchDocuments(index), SearchDocuments(index, most_characters=4)
    first.use(["Rome is a city on the Tiber."])
    assert second.run("Bonn") == "[1] Bonn"
    assert first.run("Bonn") == "nothing found"


# --- the passage that holds the answer -----------------------------------------------------------------------------------

FILLER = (
    "Many people come every year and most of them stay for a week. ",
    "The weather changes quickly and nobody should rely on the forecast. ",
    "A small museum shows tools, letters and photographs of the first visitors. ",
    "Roads were built late, and in winter some of them are closed for a month. ",
)
FACTS = {
    "Kilimanjaro": ("How high is the summit of Kilimanjaro?", "Its summit is 5,895 metres high. ", "5,895"),
    "The Rhine": ("Where does the Rhine reach the sea?", "It reaches the sea near Rotterdam. ", "Rotterdam"),
    "Lake Baikal": ("How deep is Lake Baikal?", "Soundings gave 1,642 metres as the depth of the lake. ", "1,642"),
    "The Gotthard tunnel": (
        "When was the Gotthard tunnel opened?",
        "Trains use it since its opening in 2016. ",
        "2016",
    ),
    "Mount Etna": ("On which island does Mount Etna stand?", "It stands on the island of Sicily. ", "Sicily"),
    "Machu Picchu": ("Who showed Machu Picchu to the world?", "Bingham showed it to the world in 1911. ", "Bingham"),
}
"""A subject to a question, the sentence with the answer, and the answer."""


def article(subject: str, sentence: str, before: int) -> str:
    """The sentence stands far behind the beginning, and does not name the subject."""
    return f"{subject} is known far and wide. " + "".join(FILLER) * before + sentence + "".join(FILLER) * 3


@pytest.mark.parametrize("before", [0, 3, 12])
def test_a_question_finds_the_passage_that_holds_the_answer(before: int):
    tool = SearchDocuments([article(subject, sentence, before) for subject, (_, sentence, _) in FACTS.items()])
    missing = [question for question, _, answer in FACTS.values() if answer not in tool.run(question)]
    assert missing == []


def test_a_result_goes_on_behind_its_passage_and_none_is_shown_twice():
    tool = SearchDocuments([article("Etna", "It erupts. ", 3)], most_characters=1000)
    first = tool.run("erupts").removeprefix("[1] ")
    assert "It erupts." in first
    assert len(first) > 500
    shown = tool.run("museum visitors").split("\n[")
    assert len(shown) == len(set(shown))


def test_a_document_without_sentences_is_cut_between_words_or_anywhere():
    words = SearchDocuments(["word " * 200 + "needle " + "word " * 200])
    assert "needle" in words.run("needle")
    assert "330" in SearchDocuments(["x" * 2000 + " 330 " + "y" * 50]).run("330")


@pytest.mark.parametrize(("top_k", "shown"), [(None, 3), (1, 1), (5, 5), (0, 1), (1000, 10)])
def test_a_call_may_say_how_many_passages_it_wants(top_k: int | None, shown: int):
    tool = SearchDocuments([f"Tower {number} is tall." for number in range(20)])
    assert len(tool.run("tower", top_k).splitlines()) == shown


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
    monkeypatch.setattr(search, "MOST_DOCUMENTS", 3)
    with pytest.raises(UsageError, match="has more than 3 documents"):
        read_corpus(folder)
    with (folder / "large.txt").open("wb") as file:
        file.truncate(search.MOST_BYTES + 1)
    with pytest.raises(UsageError, match="has more than 64 MiB of documents"):
        read_corpus(folder)
