import contextlib
import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.errors import BadFile
from rl.base.records import Message, WidgetChoice
from rl.collect import json_stream
from rl.collect.command_center import (
    Entry,
    Rating,
    Rejected,
    entry_details,
    entry_prompt,
    entry_to_answer,
    read_entries,
    read_ratings,
    read_run,
    widget_choice,
)
from rl.collect.storable import DEEPEST, unstorable
from rl.data_formatter import build_fixture_dpo_pairs, build_widget_dpo_pairs
from tests.collect.make_command_center import SCENARIOS, SUITS, write_files

Row = dict[str, Any]
INTENT = {"type": "query", "domains": ["industrial"], "entities": {"devices": ["Pump 4"]}, "confidence": 0.9}
ROW: Row = {
    "entry_id": "e00001",
    "question_id": "q001",
    "question": "Compare the pumps",
    "category": "comparison",
    "scenario": "comparison",
    "fixture": "waterfall_visual-loss-analysis",
    "size": "hero",
    "natural": True,
    "forced": False,
    "pipeline_selected_fixture": "grouped_bar_visual-phase-comparison",
    "widget_index": 0,
    "data_override": {"demoData": {"label": "Flow", "unit": "%", "valueA": 100}},
    "layout_context": {"heading": "Pumps", "total_widgets": 7, "position": 0},
    "pipeline_meta": {"intent": INTENT, "voice_response": "Here.", "processing_time_ms": 51651},
    "rating": None,
    "tags": [],
    "notes": "",
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    """Writes text or bytes as they are, and anything else as JSON."""

    def _write(content: object) -> Path:
        path = tmp_path / "file.json"
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return path

    return _write


def run_of(*rows: object) -> Row:
    return {"run_id": "exhaustive_1", "created_at": "2026-02-01T12:46:57", "total_questions": 1, "entries": list(rows)}


def only(found: list[Any]) -> Any:
    (one,) = found
    return one


def test_an_entry_is_read_with_all_its_fields(write):
    entry = only(list(read_entries(write(run_of(ROW)))))
    assert isinstance(entry, Entry)
    assert (entry.entry_id, entry.question_id, entry.scenario, entry.size) == ("e00001", "q001", "comparison", "hero")
    assert entry.natural
    assert not entry.forced
    assert entry.pipeline_meta["intent"] == INTENT
    assert entry.data_override == ROW["data_override"]
    assert entry.rating is None


def test_a_file_says_which_run_it_holds(write):
    found = read_run(write(run_of(ROW)))
    assert (found.run_id, found.created_at, found.question_bank) == ("exhaustive_1", "2026-02-01T12:46:57", "")


def test_a_forced_entry_has_no_fixture_of_the_pipeline(write):
    row = ROW | {"pipeline_selected_fixture": None, "widget_index": -1, "natural": False, "forced": True}
    entry = only(list(read_entries(write(run_of(row)))))
    assert (entry.pipeline_selected_fixture, entry.widget_index, entry.forced) == (None, -1, True)


def test_a_rating_within_an_entry_counts(write):
    row = ROW | {"rating": "down", "tags": ["too big"], "notes": "why a waterfall?"}
    entry = only(list(read_entries(write(run_of(row)))))
    assert entry.rating == Rating("e00001", up=False, tags=("too big",), notes="why a waterfall?")


def test_keys_around_the_entries_are_of_no_matter(write):
    content = {"gallery": [{"entries": 1}], "entries": [ROW], "notes": {"deep": [1, 2]}}
    assert len(list(read_entries(write(content)))) == 1
    assert len(list(read_entries(write(json.dumps(run_of(ROW), indent=3).replace("\n", "\r\n"))))) == 1
    assert len(list(read_entries(write(b"\xef\xbb\xbf" + json.dumps(run_of(ROW)).encode())))) == 1
    assert list(read_entries(write(run_of()))) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"entry_id": None}, "entry_id must be text, not None"),
        ({"question_id": 7}, "question_id must be text, not 7"),
        ({"question": "  "}, "question is empty"),
        ({"scenario": ["kpi"]}, "scenario must be text"),
        ({"fixture": " "}, "fixture is empty"),
        ({"size": "gigantic"}, "size must be one of hero, expanded, normal, compact, not 'gigantic'"),
        ({"size": ["hero"]}, "size must be one of"),
        ({"natural": "yes"}, "natural must be true or false"),
        ({"widget_index": 1.5}, "widget_index must be a whole number"),
        ({"widget_index": True}, "widget_index must be a whole number"),
        ({"data_override": []}, "data_override must be an object"),
        ({"pipeline_meta": "x"}, "pipeline_meta must be an object"),
        ({"rating": "sideways"}, "the rating must be up or down, not 'sideways'"),
        ({"rating": 1}, "the rating must be up or down, not 1"),
        ({"rating": "up", "tags": "good"}, "tags must be a list of texts"),
        ({"rating": "up", "notes": 5}, "notes must be text"),
        ({"question_id": "q" * 201}, "question_id is longer than 200 characters"),
        ({"question": "a\x00b"}, "contains a NUL character"),
        ({"data_override": {"demoData": {"label": "cut \ud83d"}}}, "contains half of a surrogate pair"),
        ({"data_override": {"a\udc00": 1}}, "contains half of a surrogate pair"),
        ({"data_override": {"valueA": float("nan")}}, "contains a number that is not finite"),
        ({"data_override": {"valueA": 10**30}}, "contains a whole number of more than 64 bits"),
    ],
)
def test_a_bad_entry_is_named_and_the_others_are_read(write, change, reason):
    found = list(read_entries(write(run_of(ROW | {"entry_id": "e1"}, ROW | change, ROW | {"entry_id": "e3"}))))
    assert [one.entry_id for one in found if isinstance(one, Entry)] == ["e1", "e3"]
    assert isinstance(found[1], Rejected)
    assert reason in found[1].reason
    assert found[1].where == ("entry number 2" if "entry_id" in change else "entry e00001")


@pytest.mark.parametrize("name", ["entry_id", "question_id", "question", "scenario", "fixture", "size"])
def test_an_entry_without_a_field_that_matters_is_refused(write, name):
    rejected = only(list(read_entries(write(run_of({k: v for k, v in ROW.items() if k != name})))))
    assert isinstance(rejected, Rejected)
    assert name in rejected.reason


def test_an_entry_id_counts_once(write):
    found = list(read_entries(write(run_of(ROW, ROW | {"size": "compact"}))))
    assert isinstance(found[0], Entry)
    assert found[1] == Rejected("entry e00001", "the entry id was used before in this file")


def test_an_entry_that_is_no_object_is_refused(write):
    found = list(read_entries(write(run_of(7, None, [ROW]))))
    assert found == [Rejected(f"entry number {i}", "is not a JSON object") for i in (1, 2, 3)]


def test_an_entry_nested_too_deeply_is_refused(write):
    nested: object = 1
    for _ in range(DEEPEST):
        nested = {"x": nested}
    rejected = only(list(read_entries(write(run_of(ROW | {"data_override": nested})))))
    assert rejected.reason == f"is nested deeper than {DEEPEST} levels"


WHOLE = json.dumps(run_of(ROW, ROW | {"entry_id": "e00002"}))


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("", "character 1", "'{' was expected, the file ends"),
        ("[1]", "character 1", "'{' was expected, '[' was found"),
        (WHOLE[:-30], "after entry e00001", "not valid JSON"),
        (WHOLE[:-1], "after the entries", "',' was expected, the file ends"),
        (WHOLE + "{}", "after the entries", "something follows the end"),
        (WHOLE.replace('"e00002"', "e00002"), "after entry e00001", "expecting value"),
        (WHOLE.replace('}, {"entry_id"', '} {"entry_id"'), "after entry e00001", "',' was expected, '{' was found"),
        ("{entries: []}", "character 2", "a key in quotes was expected"),
        ('{"entries": [' + "[" * 300_000, "at the first entry", "nested too deeply"),
        ('{"entries": [' + "9" * 10_000 + "]}", "at the first entry", "limit"),
        (WHOLE.encode().replace(b"pumps", b"p\xffmps"), f"character {WHOLE.index('umps') + 1}", "not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(write, content, where, what):
    with pytest.raises(BadFile) as caught:
        list(read_entries(write(content)))
    assert where in caught.value.location
    assert what in caught.value.problem


@pytest.mark.parametrize("content", ["{}", '{"ratings": {}}', '{"entries": 7}', '{"entries": {"a": 1}}'])
def test_a_file_without_entries_is_refused(write, content):
    with pytest.raises(BadFile, match="has no list 'entries'"):
        list(read_entries(write(content)))


@pytest.mark.parametrize("read", [read_entries, read_ratings])
def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, read):
    with pytest.raises(BadFile, match="none.json: cannot be read: No such file"):
        list(read(tmp_path / "none.json"))
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        list(read(tmp_path))


def test_an_element_without_end_is_given_up(write, monkeypatch):
    monkeypatch.setattr(json_stream, "LONGEST", 2**20)
    with pytest.raises(BadFile, match="an element of more than 1 million characters"):
        list(read_entries(write('{"entries": ["' + "x" * 5_000_000)))


def test_a_cut_file_is_refused_wherever_it_is_cut(write):
    for length in range(0, len(WHOLE), 7):
        with pytest.raises(BadFile):
            list(read_entries(write(WHOLE[:length])))


@settings(max_examples=60)
@given(st.binary(max_size=40), st.integers(0, len(WHOLE)))
def test_random_damage_never_ends_in_another_error(write, noise, at):
    path = write(WHOLE.encode()[:at] + noise + WHOLE.encode()[at:])
    for read in (read_entries, read_ratings, lambda p: [read_run(p)]):
        with contextlib.suppress(BadFile):
            assert len(list(read(path))) <= 12


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda x: st.lists(x, max_size=4),
    ),
    st.integers(1, 9),
)
def test_a_value_is_the_same_wherever_the_chunks_end(value, chunk):
    class Slow:
        def __init__(self, text):
            self.text = text

        def read(self, _count):
            piece, self.text = self.text[:chunk], self.text[chunk:]
            return piece

    reader = json_stream.JsonReader(
        Path("x"), Slow(json.dumps({"k": [value, 12.5, "é\u2028", -1e-7]}, ensure_ascii=False).encode())
    )  # type: ignore[arg-type]
    assert [list(reader.elements()) for _ in reader.members()] == [[value, 12.5, "é\u2028", -1e-7]]
    reader.end()


UP = {"rating": "up", "tags": ["good"], "notes": "yes", "rated_at": "2026-02-02T10:00:00Z"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"ratings": inner},
        lambda inner: inner,
        lambda inner: {"device_id": "d", "ratings": inner, "v": {}},
    ],
)
def test_ratings_are_read_in_either_shape(write, wrap):
    found = list(read_ratings(write(wrap({"e1": UP, "e2": {"rating": "down"}}))))
    assert found == [
        Rating("e1", True, ("good",), "yes", datetime(2026, 2, 2, 10, tzinfo=UTC)),
        Rating("e2", False),
    ]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-02-02T10:00:00", datetime(2026, 2, 2, 10, tzinfo=UTC)),
        ("2026-02-02T10:00:00+02:00", datetime(2026, 2, 2, 8, tzinfo=UTC)),
        ("2026-02-02T10:00:00.123Z", datetime(2026, 2, 2, 10, 0, 0, 123000, tzinfo=UTC)),
        (None, None),
        ("", None),
    ],
)
def test_times_are_in_utc(write, text, time):
    assert only(list(read_ratings(write({"e1": UP | {"rated_at": text}})))).rated_at == time


@pytest.mark.parametrize(
    ("rating", "reason"),
    [
        ({}, "the rating must be up or down, not None"),
        ({"rating": None}, "the rating must be up or down"),
        ({"rating": "UP"}, "the rating must be up or down, not 'UP'"),
        ({"rating": True}, "the rating must be up or down, not True"),
        ("up", "the rating is not a JSON object"),
        (UP | {"tags": [1]}, "tags must be a list of texts"),
        (UP | {"notes": ["x"]}, "notes must be text"),
        (UP | {"notes": "a\x00"}, "contains a NUL character"),
        (UP | {"rated_at": "yesterday"}, "rated_at must be an ISO 8601 time, not 'yesterday'"),
        (UP | {"rated_at": 1700000000}, "rated_at must be an ISO 8601 time"),
        (UP | {"rated_at": "0001-01-01T00:00:00+14:00"}, "rated_at must be an ISO 8601 time"),
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_bad_rating_is_named_and_the_others_are_read(write, rating, reason, wrapped):
    inner = {"e1": UP, "e2": rating, "e3": UP}
    found = list(read_ratings(write({"ratings": inner} if wrapped else inner)))
    assert {one.entry_id for one in found if isinstance(one, Rating)} == {"e1", "e3"}
    rejected = only([one for one in found if isinstance(one, Rejected)])
    assert rejected.where == "entry e2"
    assert reason in rejected.reason


def test_a_rating_of_an_impossible_id_is_refused(write):
    found = list(read_ratings(write({"ratings": {"a\x00": UP, "x" * 201: UP, "": UP}})))
    assert [one.reason.split(" ", 1)[1] for one in found] == [
        "a NUL character",
        "is longer than 200 characters",
        "is empty",
    ]


def test_a_damaged_file_of_ratings_is_refused(write):
    for content in ("5", '{"ratings": {"e1": {"rating": "up"}', '{"e1": {"rating": "up"}} x', ""):
        with pytest.raises(BadFile, match="not valid JSON"):
            list(read_ratings(write(content)))


def test_an_entry_becomes_an_answer(write):
    entry = only(list(read_entries(write(run_of(ROW)))))
    answer = entry_to_answer(entry, up=2, down=1, feedback_ids=[4, 5, 6])
    assert answer.prompt == ({"role": "user", "content": "Compare the pumps"},)
    assert answer.response == "comparison (hero): waterfall_visual-loss-analysis"
    assert (answer.answer_id, answer.prompt_key, answer.up, answer.down) == ("e00001", "q001", 2, 1)
    assert answer.feedback_ids == (4, 5, 6)
    expected = WidgetChoice(
        ROW["scenario"], ROW["fixture"], "hero", ROW["question"], INTENT, ROW["data_override"], "Pumps"
    )
    assert answer.widget == expected


def test_a_stored_answer_gives_the_same_widget_as_its_entry(write):
    entry = only(list(read_entries(write(run_of(ROW)))))
    stored = json.loads(json.dumps(entry_details(entry)))
    assert widget_choice(stored, entry_prompt(entry)) == entry_to_answer(entry, 1, 0).widget


@pytest.mark.parametrize(
    "details", [{}, {"scenario": "kpi", "fixture": "x"}, {"scenario": 1, "fixture": "x", "size": "hero"}]
)
def test_an_answer_without_a_widget_has_none(details):
    assert widget_choice(details, ()) is None


def test_a_widget_needs_no_more_than_its_three_names():
    prompt = (Message(role="system", content="s"), Message(role="user", content="q"))
    details = {"scenario": "kpi", "fixture": "x", "size": "hero", "pipeline_meta": {"intent": None}, "data_override": 5}
    assert widget_choice(details, prompt) == WidgetChoice("kpi", "x", "hero", "q")


def test_what_a_column_can_hold_is_storable():
    assert unstorable({"a": [1, -(2**63) + 1, 0.5, None, True, "ä😀\n"]}) == ""


def test_made_up_files_are_read_whole_and_teach_the_taste_they_were_made_with(tmp_path: Path):
    files = write_files(tmp_path, questions=40, seed=5, noise=0.0)
    entries = list(read_entries(files.entries))
    ratings = {rating.entry_id: rating for rating in read_ratings(files.ratings) if isinstance(rating, Rating)}
    assert (len(entries), len(ratings)) == (files.entry_count, files.rating_count)
    answers = [
        entry_to_answer(entry, int(ratings[entry.entry_id].up), int(not ratings[entry.entry_id].up))
        for entry in entries
        if isinstance(entry, Entry) and entry.entry_id in ratings
    ]
    suits = {entry.question_id: SUITS[entry.category] for entry in entries if isinstance(entry, Entry)}
    pairs = build_widget_dpo_pairs(answers, sorted(SCENARIOS))
    assert len(pairs) > 100
    assert all(listed.split(" ")[0] in suits[pair.question_id] for pair in pairs for listed in pair.chosen.split(", "))
    assert len(build_fixture_dpo_pairs(answers, {})) >= 5


def test_the_same_seed_makes_the_same_files(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = write_files(tmp_path / "a", 3, seed=7), write_files(tmp_path / "b", 3, seed=7)
    assert one.entries.read_bytes() == other.entries.read_bytes()
    assert one.ratings.read_bytes() == other.ratings.read_bytes()


def test_a_large_file_is_never_in_memory_whole(tmp_path: Path):
    files = write_files(tmp_path, questions=120, seed=2)
    size = files.entries.stat().st_size
    assert size > 1_500_000
    tracemalloc.start()
    try:
        assert sum(isinstance(entry, Entry) for entry in read_entries(files.entries)) == files.entry_count
        assert tracemalloc.get_traced_memory()[1] < size / 2
    finally:
        tracemalloc.stop()
