"""What is exported is read again: the same prompts, answers, labels and rewards."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.records import silent
from rl.collect.importers import reader
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.write import TraceStore
from rl.dataset_builder.exporting import FORMATS, ExportFilters, parquet, row_format
from rl.dataset_builder.exporting.export import ExportRequest, export
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Tally
from rl.from_systems.ocd.formulas import RATINGS as SCORES
from rl.from_systems.ocd.records import canonical, read_decision
from rl.models import Agent, Feedback, Trace

READERS = {
    "kto": "trl",
    "grpo": "trl",
    "dpo": "trl",
    "reward": "trl",
    "trl": "trl",
    "openai": "openai_chat",
    "sharegpt": "sharegpt",
    "decision": "ocd_decision",
}

characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.text(characters, min_size=1, max_size=30).filter(str.strip)
messages = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": texts})
prompts = st.tuples(st.lists(messages, max_size=2), texts).map(
    lambda parts: [*parts[0], {"role": "user", "content": parts[1]}]
)
calls = st.fixed_dictionaries(
    {
        "tool_name": st.text("abc_", min_size=1, max_size=8),
        "arguments": st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.booleans()), max_size=2),
        "result": texts,
        "success": st.just(True),
    }
)
answers = st.fixed_dictionaries(
    {
        "response": texts,
        "tool_calls": st.lists(calls, max_size=2),
        "reward": st.one_of(st.none(), st.integers(0, 1000).map(lambda value: value / 1000)),
        "rating": st.sampled_from([None, 0.0, 1.0]),
    }
)
stored = st.lists(st.tuples(prompts, st.lists(answers, min_size=1, max_size=4)), min_size=1, max_size=3)


def store(agent: Agent, content: list[tuple[list[dict[str, str]], list[dict[str, Any]]]]) -> None:
    Trace.objects.all().delete()
    for prompt, given_answers in content:
        for one in given_answers:
            columns = {name: value for name, value in one.items() if name != "rating"}
            trace = Trace.objects.create(agent=agent, prompt=prompt, **columns)
            if one["rating"] is not None:
                Feedback.objects.create(
                    agent=agent,
                    trace=trace,
                    kind="rating",
                    scale="thumb",
                    rater="alice",
                    value=one["rating"],
                    raw_value=one["rating"],
                )


def rows_of(agent: Agent, name: str, path: Path) -> list[dict[str, Any]]:
    """What was written, as the format itself has it."""
    rows = [row.values for row in row_format(name)(agent, ExportFilters(data=DataOptions()), Tally()).rows()]
    if rows:
        request = ExportRequest(format=name, filters=ExportFilters(data=DataOptions()), split="all")
        export(agent, request, path, path.suffix.removeprefix("."), silent)
    return rows


def read_back(name: str, path: Path) -> list[ImportedTrace]:
    found = list(reader(READERS[name]).read(path))
    assert all(isinstance(one, ImportedTrace) for one in found)
    return found


def said(trace: ImportedTrace) -> tuple[Any, ...]:
    """Prompt, answer, and the label, reward or choice that came with it."""
    told = [(event.kind, event.value, event.choice) for event in trace.feedback]
    return [dict(message) for message in trace.prompt], trace.response, told


def text(completion: list[dict[str, str]]) -> str:
    return completion[-1]["content"]


def asked(row: dict[str, Any]) -> list[dict[str, str]]:
    """A pair's prompt goes up to where its runs part, a trace's to the last question."""
    last = max(number for number, message in enumerate(row["prompt"]) if message["role"] == "user")
    return row["prompt"][: last + 1]


def wanted(name: str, row: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What ``said`` must be of the answers in a row."""
    if name == "dpo":
        better = (asked(row), text(row["chosen"]), [("comparison", None, "left")])
        return [(asked(row), text(row["rejected"]), []), better]
    if name == "grpo":
        both = zip(row["completions"], row["rewards"], strict=True)
        return [(row["prompt"], text(answer), [("outcome", reward, "")]) for answer, reward in both]
    if name == "kto":
        return [(row["prompt"], text(row["completion"]), [("rating", float(row["label"]), "")])]
    if name in ("trl", "reward"):
        return [(row["prompt"], text(row["completion"]), [])]
    return []


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["dpo", "grpo", "kto", "trl", "reward"])
@settings(max_examples=8)
@given(content=stored)
def test_rows_for_trainers_are_read_as_they_were_written(agent, tmp_path, name, suffix, content):
    store(agent, content)
    path = tmp_path / f"rows.{suffix}"
    rows = rows_of(agent, name, path)
    if rows:
        found = read_back(name, path)
        assert [said(trace) for trace in found] == [one for row in rows for one in wanted(name, row)]
        if name == "reward":
            assert [trace.details["reward"] for trace in found] == [row["reward"] for row in rows]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["openai", "sharegpt"])
@settings(max_examples=8)
@given(content=stored)
def test_chats_are_read_with_their_tool_calls(agent, tmp_path, name, suffix, content):
    store(agent, content)
    path = tmp_path / f"rows.{suffix}"
    if not rows_of(agent, name, path):
        return
    there = [known(trace.prompt, trace.response, trace.tool_calls) for trace in Trace.objects.all()]
    for trace in read_back(name, path):
        assert known(trace.prompt, trace.response, map(asdict, trace.tool_calls)) in there


def known(prompt: Iterable[Any], response: str, used: Iterable[dict[str, Any]]) -> str:
    calls = [[call["tool_name"], call["arguments"], call["result"]] for call in used]
    return canonical([list(prompt), response, calls])


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), texts),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
decisions = st.fixed_dictionaries(
    {"state": plain.filter(lambda value: value is not None), "action": plain.filter(lambda value: value is not None)},
    optional={
        "confidence": st.integers(0, 100).map(lambda value: value / 100),
        "itemId": texts,
        "userFeedback": st.sampled_from(sorted(SCORES)),
        "rewardComponents": st.dictionaries(st.sampled_from("ab"), st.integers(-5, 5).map(float), max_size=2),
    },
)


@pytest.mark.database
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@settings(max_examples=8)
@given(given_decisions=st.lists(st.tuples(decisions, st.integers(-20, 20)), min_size=1, max_size=4))
def test_decisions_are_read_as_they_were_written_and_are_known(agent, tmp_path, suffix, given_decisions):
    Trace.objects.all().delete()
    records = [read_decision({**one, "id": f"d{n}"}, "") for n, (one, _) in enumerate(given_decisions)]
    traces = TraceStore("test", agent=agent).take([one for one in records if isinstance(one, ImportedTrace)])
    rewards = [reward / 4 for _, reward in given_decisions]
    for trace, reward in zip(traces, rewards, strict=True):
        trace.rewards = {"decision": {"details": {"reward": reward}}}
    Trace.objects.bulk_update(traces, ["rewards"])
    path = tmp_path / f"rows.{suffix}"
    rows_of(agent, "decision", path)
    found = sorted(read_back("decision", path), key=lambda one: one.external_id)
    assert [(one.prompt, one.response, one.action) for one in found] == [
        (one.prompt, one.response, one.action) for one in records
    ]
    assert [said(one)[2] for one in found] == [said(one)[2] for one in records]
    assert [one.details["decision"]["reward"] for one in found] == rewards
    again = TraceStore("test", agent=agent)
    again.take(found)
    imported = again.report.traces.imported + again.report.feedback.imported
    assert (imported, again.report.skipped, Trace.objects.count()) == (0, {}, len(records))


def test_every_format_is_read_by_an_importer():
    assert set(READERS) == set(FORMATS) - {"toolbox_kto"}  # text for another trainer


def test_every_format_has_a_type_for_each_column_of_parquet():
    kinds = {kind for name in FORMATS for kind in row_format(name).columns.values()}
    assert kinds == set(parquet._TYPES)
