import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.base.manner import Manner
from rl.dataset_builder import DataOptions
from rl.models import Agent
from rl.runs import preview as previewing
from rl.runs.dry_run import dry_run
from rl.runs.preview import ChatKinds, Preview, preview, show, with_answers
from rl.runs.run import RunOptions
from tests.conftest import IMPATIENT, make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated

LONG = [{"role": role, "content": "And?"} for role in ("user", "assistant", "user", "assistant", "user")]
OPTIONS = RunOptions(data=DataOptions(min_samples=1))


def of_agent(agent: Agent, base: Path | str, method: str = "mpo", count: int = 20) -> Preview:
    Agent.objects.filter(pk=agent.pk).update(base_model=str(base))
    agent.refresh_from_db()
    return preview(agent, agent.training_config(method), OPTIONS, method, count)


def learned(row: dict[str, Any]) -> dict[str, str]:
    return {answer["name"]: "".join(text for text, own in answer["pieces"] if own) for answer in row["answers"]}


def rate_long_chats(agent: Agent, count: int) -> None:
    for number in range(count):
        chat = [*LONG[:-1], {"role": "user", "content": f"Long question {number}?"}]
        trace = make_trace(agent, response=f"Long answer {number}.")
        type(trace).objects.filter(pk=trace.pk).update(prompt=chat, prompt_key=f"long-{number}")
        trace.refresh_from_db()
        rate(trace, 1)


@pytest.mark.learn
def test_the_first_rows_are_those_of_the_run_token_by_token(agent: Agent, tiny_base: Path, data_dir: Path):
    rate_prompts(agent, 12)
    shown = of_agent(agent, tiny_base, count=3)
    assert len(shown.rows) == 3 < shown.total
    assert not shown.is_text
    row = shown.rows[0]
    assert row["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert learned(row).keys() == {"chosen", "rejected"}
    assert learned(row)["chosen"].endswith("is good.<|im_end|>")
    assert row["weight"] == 1.0
    assert len(row["feedback"]) == 2


@pytest.mark.learn
def test_chats_that_the_template_refuses_are_counted_by_reason_in_the_plan_and_among_the_rows(
    agent: Agent, impatient_base: Path, data_dir: Path
):
    rate_prompts(agent, 12)
    rate_long_chats(agent, 7)
    shown = of_agent(agent, impatient_base, count=100)
    [(reason, count)] = shown.counts.items()
    assert IMPATIENT in reason
    assert 0 < count == len(shown.left_out) <= 7
    assert {row["reason"] for row in shown.left_out} == {reason}
    assert len(shown.rows) + count == shown.total
    planned = dry_run(agent, agent.training_config("mpo"), OPTIONS, "mpo")
    assert planned.document["data"]["refused"] == {reason: count}
    assert planned.tables["Left out"][reason] == count


@pytest.mark.learn
def test_a_plan_of_rows_that_are_all_refused_is_refused_with_the_reason(
    agent: Agent, impatient_base: Path, data_dir: Path
):
    rate_long_chats(agent, 12)
    Agent.objects.filter(pk=agent.pk).update(base_model=str(impatient_base))
    agent.refresh_from_db()
    with pytest.raises(NotEnoughData, match=IMPATIENT):
        dry_run(agent, agent.training_config("sft"), OPTIONS, "sft")
    shown = of_agent(agent, impatient_base, "sft")
    assert (shown.rows, IMPATIENT in shown.problem) == ([], True)
    assert len(shown.left_out) == shown.total > 0


@pytest.mark.learn
def test_a_tokenizer_that_cannot_be_read_is_one_clear_line(tiny_base: Path, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{")
    row = {"prompt": LONG[:1], "answers": {"chosen": LONG[1:2]}}
    with pytest.raises(UsageError, match="the rows cannot be shown: cannot load the tokenizer"):
        show(tmp_path, [row], None, Manner())


@pytest.mark.process
def test_a_tokenizer_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(previewing, "SECONDS", 0.01)
    with pytest.raises(UsageError, match="takes more than"):
        show(tmp_path, [{"prompt": LONG[:1], "answers": {"chosen": LONG[1:2]}}], None, Manner())


def test_without_the_base_model_the_rows_are_texts_and_nothing_is_refused(agent: Agent, data_dir: Path):
    rate_prompts(agent, 12)
    rate_long_chats(agent, 3)
    shown = of_agent(agent, "nobody/not-here")
    assert shown.is_text
    assert shown.counts == {}
    row = shown.rows[0]
    assert row["prompt"].startswith("user: Question ")
    assert learned(row)["chosen"].endswith("is good.")
    assert row["weight"] == 1.0


@pytest.mark.parametrize("keeps", [True, False])
def test_thoughts_that_a_run_would_leave_out_are_not_shown_as_learned(agent: Agent, data_dir: Path, keeps: bool):
    agent.thinks, agent.keep_to_answers = True, keeps
    agent.answer_kind, agent.answer_values = "closed", ["cards", "cash"]
    agent.base_model = "nobody/not-here"
    agent.save()
    for number in range(12):
        trace = rated(agent, f"Question {number}?", "cards", number % 2).trace
        type(trace).objects.filter(pk=trace.pk).update(
            reasoning_steps=[{"content": "They paid.", "step_type": "reasoning"}]
        )
    shown = of_agent(agent, "nobody/not-here")
    assert {learned(row)["chosen"] for row in shown.rows if "chosen" in learned(row)} == {
        "cards" if keeps else "They paid.\ncards"
    }
    planned = dry_run(agent, agent.training_config("mpo"), OPTIONS, "mpo")
    assert planned.config.thinks is not keeps


def test_rows_of_data_that_is_too_little_are_shown_with_what_is_missing(agent: Agent, data_dir: Path):
    rate_prompts(agent, 1)
    options = RunOptions(data=DataOptions(min_samples=10))
    Agent.objects.filter(pk=agent.pk).update(base_model="nobody/not-here")
    agent.refresh_from_db()
    shown = preview(agent, agent.training_config("kto"), options, "kto")
    assert "10 are needed" in shown.problem
    assert len(shown.rows) == shown.total == 2


def test_methods_that_make_their_answers_themselves_have_no_rows_to_show(agent: Agent, data_dir: Path):
    assert of_agent(agent, "nobody/not-here", "ppo") == Preview()


def test_only_so_many_bytes_are_kept_to_be_shown(monkeypatch: pytest.MonkeyPatch):
    row = {"prompt": LONG[:1], "chosen": [{"role": "assistant", "content": "a" * 1000}], "rejected": None}
    monkeypatch.setattr(previewing, "MOST_BYTES", 3_500)
    kinds = ChatKinds("mpo", False, 100)
    for _ in range(10):
        kinds.saw(row)
    assert len(kinds.first) == 3
    assert kinds.counts.total() == 10


def test_every_answer_of_a_group_is_shown():
    answers = [[{"role": "assistant", "content": text}] for text in ("a", "b")]
    row = with_answers("grpo", {"prompt": LONG[:1], "completions": answers, "rewards": [0, 1], "split_key": "x"})
    assert row == {
        "prompt": LONG[:1],
        "rewards": [0, 1],
        "answers": {"completions[0]": answers[0], "completions[1]": answers[1]},
    }


def test_a_simple_question_is_tried_with_no_template_and_the_other_kinds_once_each():
    kinds = ChatKinds("mpo", False)
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"a": 1}}}
    run = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "Five."},
    ]
    answer = [{"role": "assistant", "content": "Well."}]
    rules = {"role": "system", "content": "Be brief."}
    for prompt, chosen in ((LONG[:1], answer), ([rules, *LONG[:1]], answer), (LONG, answer), (LONG[:1], run)):
        for _ in range(3):
            kinds.saw({"prompt": prompt, "chosen": chosen, "rejected": None})
    assert list(kinds.counts.values()) == [3, 3, 3, 3]
    assert len(kinds.examples) == 2
    long = {"role": "user", "content": "word " * 10_000}
    kinds.saw({"prompt": [rules, rules, long], "chosen": answer, "rejected": None})
    assert len(json.dumps(list(kinds.examples.values())[-1])) < 2_000
