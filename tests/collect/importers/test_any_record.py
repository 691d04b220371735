"""Whatever a line says: it is read or rejected, and what is read can be stored."""

import json
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.errors import BadFile
from rl.collect.importers import IMPORTERS, openai_chat, reader, report, trl
from rl.collect.importers.report import KEPT, NO_WORDS, OPINION, REPEATED, TEXT, Ledger
from rl.collect.traces.imported import ImportedRemark, ImportedTrace, Rejected
from rl.collect.traces.write import TraceStore
from rl.models import Agent
from tests.collect.importers import test_openwebui_feedback, test_trace_file
from tests.collect.importers.reading import lines, said, taken
from tests.collect.importers.test_langfuse_score import SCORE, TRACE
from tests.from_systems.n3 import test_feedback_file
from tests.from_systems.ocd import test_decision_file as test_ocd_decision

CHAT = [
    said("user", "Hi"),
    said("assistant", "x", tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]),
    said("tool", "y"),
]
PARTS = [
    said("user", [{"type": "text", "value": "Hi"}]),
    said("assistant", [{"type": "reasoning", "value": "t"}, {"type": "tool_call", "value": '{"name": "f"}'}]),
    said("tool", "y"),
    said("user", "Hi"),
    said("assistant", [{"type": "text", "text": "x"}, {"type": "tool_use", "name": "f", "input": {}}]),
]
SHOWN = '<details type="tool_calls" name="f" arguments="&quot;{}&quot;"></details><think>t</think>'
LEFT = {"type": "pairwise", "value": {"selected": "left"}}
SEEDS: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"messages": CHAT, "tools": []},
        {"messages": PARTS},
        {"messages": CHAT, "system": "s", "label": "good"},
    ],
    "openai_preference": [
        {
            "input": {"messages": CHAT[:1]},
            "preferred_output": [CHAT[1]],
            "non_preferred_output": [said("assistant", "n")],
        }
    ],
    "sharegpt": [
        {
            "id": "1",
            "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}],
            "system": "s",
        }
    ],
    "open_assistant": [
        {
            "message_tree_id": "1",
            "prompt": {
                "text": "q",
                "role": "prompter",
                "replies": [
                    {"message_id": "2", "text": "a", "role": "assistant", "rank": 0},
                    {"message_id": "3", "text": "b", "role": "assistant", "rank": 1, "replies": []},
                ],
            },
        },
        {"thread_id": "9", "thread": [{"text": "q", "role": "prompter"}, {"text": "a", "role": "assistant"}]},
    ],
    "trl": [
        {"prompt": "p", "completion": "c", "label": True},
        {"prompt": CHAT[:1], "chosen": [CHAT[1]], "rejected": "r"},
        {"prompt": "p", "completions": ["a", "b"], "rewards": [0, 1]},
        {"chosen": "a b", "rejected": "a c"},
        {"prompt": "p", "completions": ["a", "b"], "labels": [True, False]},
        {"instruction": "i", "input": "x", "output": "o", "history": [["a", "b"]], "system": "s", "kto_tag": True},
        {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b"},
        {"history": "p", "human_ref_A": "a", "human_ref_B": "b", "labels": 1},
        {"context": CHAT[:1], "response1": "a", "response2": "b", "overall_preference": -1},
        {"prompt": "p", "answers": [{"answer": "a", "rank": 1}, {"answer": "b", "rank": 2}], "turns": 1},
        {"instruction": "p", "completions": [{"response": "a", "overall_score": 1}, {"response": "b", "score": 2}]},
        {"instruction": "p", "input": "", "response1": "a", "response2": "b", "annotator1": 1, "annotator2": 0},
        {
            "fields": {"prompt": "p", "response_a": "a", "response_b": "b"},
            "responses": {"better": [{"value": "a", "user_id": "u"}]},
        },
        {"prompt": "p", "response1": "a", "response2": "b", "pick.responses": [1], "pick.responses.users": ["u"]},
        {
            "data": {"prompt": "p", "response1": "a", "response2": "b"},
            "annotations": [{"completed_by": {"id": 1}, "result": [LEFT]}],
        },
    ],
    "langfuse_score": [TRACE, SCORE, {**TRACE, "scores": [SCORE]}, {**TRACE, "tone": ["good"], "x": [1]}],
    "openwebui_feedback": [
        test_openwebui_feedback.feedback(sibling_model_ids=["other"]),
        test_openwebui_feedback.changed(test_openwebui_feedback.feedback(), "m2", content=SHOWN),
    ],
    "n3": [test_feedback_file.GOOD],
    "ocd_decision": [test_ocd_decision.DECISION, test_ocd_decision.EXPORTED],
    "trace_file": [test_trace_file.TRACE],
    "toolbox_trace": [test_trace_file.TRACE],
}
texts = st.text(max_size=8) | st.sampled_from(
    ["\x00", "\ud800", "x" * 300, "2026-01-01", "1", "assistant", "m1", "nan"]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from([10**400, -1, 2**63, 1e308])
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, each in inner for place in places(each, (*way, key)))]


def put(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[way[0]] = put(value[way[0]], way[1:], new)
    return copied


@st.composite
def damaged(draw: Any, name: str) -> list[Any]:
    """Records of the format in which something somewhere is something else."""
    rows: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        row: Any = draw(st.sampled_from(SEEDS[name]))
        for _ in range(draw(st.integers(0, 2))):
            row = put(row, draw(st.sampled_from(places(row))), draw(anything))
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.django_db
def test_a_record_is_stored_or_rejected(name: str):
    module = import_module(IMPORTERS[name])
    agent = Agent.objects.create(name="any")

    @settings(max_examples=20)
    @given(damaged(name), st.booleans())
    def check(rows: list[Any], as_list: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.json")
            path.write_text(json.dumps(rows) if as_list else "\n".join(map(json.dumps, [SEEDS[name][0], *rows])))
            try:
                found = list(module.read(path))
            except BadFile:
                return
        assert all(isinstance(one, (ImportedTrace, ImportedRemark, Rejected)) for one in found)
        store = TraceStore("test", agent=agent)
        store.take(found)
        again = TraceStore("test", agent=agent)
        again.take(found)
        assert again.report.traces.imported == again.report.feedback.imported == 0
        assert again.report.traces.read == store.report.traces.read

    check()


@pytest.mark.parametrize("name", SEEDS)
def test_bytes_of_any_kind_are_read_or_refused(name: str, tmp_path_factory):
    module = import_module(IMPORTERS[name])
    folder = tmp_path_factory.mktemp("bytes")

    @settings(max_examples=15)
    @given(st.binary(max_size=200), st.sampled_from(["x.json", "x.jsonl", "x.json.gz", "x.csv"]))
    def check(data: bytes, file: str) -> None:
        (folder / file).write_bytes(data)
        with suppress(BadFile):
            assert all(isinstance(one, (ImportedTrace, ImportedRemark, Rejected)) for one in module.read(folder / file))

    check()


def test_every_format_that_reads_lines_is_tried():
    by_others = {"command_center", "command_center_gallery", "toolbox_checkpoint"}
    assert set(SEEDS) == set(IMPORTERS) - by_others


QUESTION, ANSWER = said("user", "Name a river."), said("assistant", "The Elbe.")
PAIR = {"prompt": "Name a river.", "chosen": "The Elbe.", "rejected": "A hill."}
ROW = {"prompt": "Name a river.", "completion": "The Elbe."}


def noted(folder: Any, *rows: dict[str, Any], module: Any = trl) -> Ledger:
    account = Ledger()
    for record in module.read(lines(folder, *rows)):
        account.add(record)
    return account


def test_every_column_is_accounted_for_with_counts(tmp_path):
    rows = [{**ROW, "system": "Be brief.", "label": True, "difficulty": 3}, {**ROW, "label": 0, "note": None}]
    account = noted(tmp_path, *rows, {"prompt": "no answer"})
    assert account.records == 2
    assert {row["column"]: row["became"] for row in account.as_list()} == {
        "prompt": {"read as the question": 2},
        "completion": {"read as the answer": 2},
        "system": {"read as the system message": 1},
        "label": {"read as a thumb": 2},
        "difficulty": {KEPT: 1},
    }


def test_two_answers_of_one_row_count_once(tmp_path):
    assert noted(tmp_path, PAIR).columns["chosen"] == {"read as the better answer": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [QUESTION, ANSWER]},
        {"response": " The  Elbe. "},
        {"question": "Name a river."},
        {"history": []},
    ],
)
def test_what_other_columns_say_too_is_not_missing(tmp_path, more):
    account = noted(tmp_path, {**PAIR, **more})
    account.refuse_unread(tmp_path)
    assert all(account.columns[name] == {REPEATED: 1} for name, value in more.items() if value)


@pytest.mark.parametrize(
    ("module", "row", "name", "fate"),
    [
        (trl, {**ROW, "rating": 4}, "rating", OPINION),
        (trl, {**ROW, "thumbs_up": True}, "thumbs_up", OPINION),
        (openai_chat, {"messages": [QUESTION, ANSWER], "feedback": "good"}, "feedback", OPINION),
        (trl, {**ROW, "question": "And which is longer?"}, "question", TEXT),
        (trl, {**PAIR, "messages": [QUESTION, said("assistant", "The Rhine.")]}, "messages", TEXT),
        (openai_chat, {"messages": [QUESTION, ANSWER], "prompt": "Another one."}, "prompt", TEXT),
        (
            openai_chat,
            {"messages": [said("user", [{"type": "image_url", "image_url": {"url": "x"}}]), ANSWER]},
            "messages",
            NO_WORDS,
        ),
    ],
)
def test_a_file_of_which_a_known_kind_of_column_is_not_read_is_refused(tmp_path, module, row, name, fate):
    account = noted(tmp_path, row, row, module=module)
    assert account.columns[name] == {fate: 2}
    with pytest.raises(BadFile, match=f"the column '{name}' {fate} in 2 of 2 records; .*--allow-unread"):
        account.refuse_unread(tmp_path)


def test_a_few_records_are_no_reason_to_refuse_a_file(tmp_path):
    account = noted(tmp_path, {**ROW, "rating": 4}, ROW)
    account.refuse_unread(tmp_path)
    assert sum(account.columns["rating"].values()) == 1


def test_an_opinion_beside_one_that_is_read_is_a_detail(tmp_path):
    assert noted(tmp_path, {**PAIR, "rating": [9, 3]}).columns["rating"] == {KEPT: 1}


def test_columns_without_end_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_MOST", 3)
    account = noted(tmp_path, {**ROW, **{f"c{number}": 1 for number in range(9)}})
    assert list(account.columns) == ["prompt", "completion", "c0", "other columns"]
    assert account.columns["other columns"] == {KEPT: 8}


def test_a_name_for_a_terminal_is_no_program_for_it(tmp_path):
    assert "\x1b" not in "".join(noted(tmp_path, {**ROW, "\x1b[2J": "x"}).columns)


@pytest.mark.parametrize("name", SEEDS)
def test_every_format_says_what_it_reads(tmp_path, name):
    for number, row in enumerate(SEEDS[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        *_, last = taken(reader(name), lines(folder, row))
        assert not isinstance(last, Rejected)
        assert any(fate.startswith("read as") for fate in last.columns.values())
    assert name in IMPORTERS
