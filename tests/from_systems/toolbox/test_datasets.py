"""Data sets as ToolBoxV2's documents build them."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from rl.base.errors import BadFile, UsageError
from rl.from_systems.toolbox import (
    DatasetPipeline,
    ExecutionTrace,
    GRPODatasetBuilder,
    GRPOExample,
    KTODatasetBuilder,
    KTOExample,
    RewardEngine,
    ToolCallTrace,
    ToolSuccessReward,
)
from rl.from_systems.toolbox.datasets import messages_of, prompt_text
from rl.from_systems.toolbox.kto_rows import text_of
from rl.models import Agent, Trace
from tests.dataset_builder.ratings import rate
from tests.from_systems.toolbox.checkpoints.make_version_2 import checkpoint, run, write_version_2

GOOD, BAD = ToolCallTrace("shell", {}, "ok", True, 1.0), ToolCallTrace("shell", {}, None, False, 1.0, "no")
ENGINE = RewardEngine([ToolSuccessReward()])


def trace(query: str, answer: str, *calls: ToolCallTrace, label: bool | None = None) -> ExecutionTrace:
    return ExecutionTrace(user_query=query, final_response=answer, tool_calls=list(calls), label=label)


def test_prompts_are_one_text_and_can_be_taken_apart():
    assert prompt_text("Sort it") == "User: Sort it"
    text = prompt_text("Sort it\n\nUser: now", "Be brief.")
    assert text == "Be brief.\n\nUser: Sort it\n\nUser: now"
    messages = messages_of(text)
    assert [(message["role"], message["content"]) for message in messages] == [
        ("system", "Be brief."),
        ("user", "Sort it\n\nUser: now"),
    ]
    assert text_of(messages) == text
    assert messages_of(messages) == messages


def test_a_label_is_a_persons_else_that_of_the_rewards():
    builder = KTODatasetBuilder(ENGINE, system_prompt="Be brief.")
    assert builder.trace_to_example(trace("q", "a", BAD, label=True)) == KTOExample("Be brief.\n\nUser: q", "a", True)
    example = builder.trace_to_example(trace("q", "a", BAD))
    assert example is not None
    assert example.label is False
    assert builder.trace_to_example(trace("q", "a")) is None
    assert builder.trace_to_example(trace("q", " ", label=True)) is None


def test_both_labels_are_equally_many_where_there_are_both():
    traces = [trace(f"q{n}", "a", GOOD if n < 5 else BAD) for n in range(7)]
    builder = KTODatasetBuilder(ENGINE)
    examples = builder.build_dataset(traces)
    assert builder.get_statistics(examples) == {"total": 4, "positive": 2, "negative": 2}
    assert builder.build_dataset(traces) == examples
    assert len(builder.build_dataset(traces, balance=False)) == 7
    assert len(builder.build_dataset(traces[:5])) == 5
    assert len(builder.build_dataset(traces, max_examples=3)) == 3


def test_groups_are_of_one_question_and_no_answer_is_invented():
    traces = [
        trace("Sort  it", "a", GOOD),
        trace("sort it", "b", BAD),
        trace("SORT IT", "a", GOOD),
        trace("Alone", "x", GOOD),
    ]
    builder = GRPODatasetBuilder(ENGINE)
    assert builder.build_dataset(traces) == [GRPOExample("User: Sort  it", ["a", "b"], [1.0, -1.0])]
    assert builder.build_dataset(traces, include_singles=True) == builder.build_dataset(traces)
    assert builder.build_dataset(traces, min_group_size=3) == []


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_examples_are_saved_and_loaded(tmp_path: Path, form: str):
    builder, examples = KTODatasetBuilder(ENGINE), [KTOExample("User: ü", "a", True), KTOExample("p", "b", False)]
    builder.save_dataset(examples, tmp_path / "new" / "kto", form)
    assert builder.load_dataset(tmp_path / "new" / "kto", form) == examples
    with pytest.raises(UsageError, match="known: jsonl, json"):
        builder.save_dataset(examples, tmp_path / "x", "csv")
    (tmp_path / "wrong").write_text('{"a": 1}' if form == "jsonl" else '[{"a": 1}]')
    with pytest.raises(BadFile, match="KTOExample"):
        builder.load_dataset(tmp_path / "wrong", form)


def test_they_become_a_hugging_face_dataset():
    rows = KTODatasetBuilder(ENGINE).to_hf_dataset([KTOExample("p", "c", True)])
    assert rows.to_list() == [{"prompt": "p", "completion": "c", "label": True}]


@pytest.fixture
def pipeline(tmp_path: Path) -> DatasetPipeline:
    """Two runs in files, one of them also in a checkpoint, with a third."""
    checkpoints = tmp_path / "data" / "Agents" / "checkpoint" / "coder"
    write_version_2(
        tmp_path / "writer",
        checkpoint(checkpoints / "final_checkpoint.pkl", *run("Sort", "sorted"), *run("Sort", "shuffled")),
    )
    pipeline = DatasetPipeline("coder", tmp_path / "data" / "rl_traces")
    for query, answer, call in (("Sort", "sorted", GOOD), ("Fetch", "failed", BAD)):
        pipeline.trace_collector.start_trace("default", query)
        pipeline.trace_collector.record_tool_call("shell", {}, "", call.success, 1.0)
        pipeline.trace_collector.finish_trace(answer)
    return pipeline


@pytest.mark.process
def test_a_pipeline_takes_files_and_checkpoints_together(pipeline: DatasetPipeline, tmp_path: Path):
    assert sorted(found.final_response for found in pipeline.collect_all_traces()) == ["failed", "shuffled", "sorted"]
    examples = pipeline.build_kto_dataset(tmp_path / "kto_data.jsonl", balance=False)
    rows = [json.loads(line) for line in (tmp_path / "kto_data.jsonl").read_text().splitlines()]
    assert rows == [example.to_dict() for example in examples]
    assert {row["prompt"] for row in rows} == {"User: Sort", "User: Fetch"}
    (group,) = pipeline.build_grpo_dataset(tmp_path / "grpo_data.jsonl")
    assert set(group.completions) == {"sorted", "shuffled"}


@pytest.mark.process
def test_a_pipeline_counts_and_labels(pipeline: DatasetPipeline):
    first, _ = pipeline.get_unlabeled_for_review()
    pipeline.label_trace(first.trace_id, True)
    statistics = pipeline.get_pipeline_statistics()
    assert (statistics["collector"]["total"], statistics["collector"]["labeled"]) == (2, 1)
    assert statistics["checkpoints"]["count"] == 1


@pytest.mark.django_db
def test_rows_are_text_as_toolbox_writes_them(agent: Agent, tmp_path: Path):
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sort it"}]
    rate(Trace.objects.create(agent=agent, prompt=prompt, response="sorted(x)"), 1)
    rate(Trace.objects.create(agent=agent, prompt=prompt[1:], response="No."), 0)
    earlier = [prompt[1], {"role": "assistant", "content": "How?"}, {"role": "user", "content": "Up"}]
    rate(Trace.objects.create(agent=agent, prompt=earlier, response="Done."), 1)
    options = ["--agent", agent.name, "--format", "toolbox_kto", "--split", "all"]
    call_command("export_training_data", *options, "--output", str(tmp_path / "kto.jsonl"), stdout=StringIO())
    rows = [json.loads(line) for line in (tmp_path / "kto.jsonl").read_text().splitlines()]
    assert sorted(rows, key=lambda row: row["prompt"]) == [
        {"prompt": "Be brief.\n\nUser: Sort it", "completion": "sorted(x)", "label": True},
        {"prompt": "User: Sort it", "completion": "No.", "label": False},
        {"prompt": "User: Sort it\n\nAssistant: How?\n\nUser: Up", "completion": "Done.", "label": True},
    ]
