import json
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import BadFile, NotEnoughData, UsageError
from rl.config import AgentConfig, GRPOConfig, TrainingConfig
from rl.dataset_builder import DataOptions
from rl.lm.encoding import encode
from rl.lm.lengths import TokenLimits
from rl.lm.loading import load_tokenizer
from rl.runs import data_check
from rl.runs.data_check import LongPrompts, checked_survey, context_of
from rl.runs.run import RunOptions
from tests.dataset_builder.ratings import rate_prompts, rated
from tests.training.conftest import row

pytestmark = pytest.mark.learn

DATA = RunOptions(data=DataOptions(min_samples=1, val_split=0))


def counted(base: Path, prompts: list[str], limit: int = 100) -> LongPrompts:
    found = LongPrompts(base, TokenLimits(limit, 2048))
    for prompt in prompts:
        found.saw(row(prompt, "Yes.", "No."))
    return found


def test_long_prompts_are_counted_in_the_base_models_tokens(tiny_base: Path):
    found = counted(tiny_base, ["Short?", "parcel " * 500, "parcel " * 500, "🙂" * 30]).lengths
    [exact] = encode(load_tokenizer(str(tiny_base)), [row("parcel " * 500, "Yes.", "No.")], 1, lambda *event: None)
    assert (found.rows, found.dropped) == (4, 3)
    assert found.longest_prompt == pytest.approx(len(exact["prompt_ids"]), abs=4)


def test_after_the_budget_tokens_are_estimated_from_those_before(tiny_base: Path, monkeypatch):
    monkeypatch.setattr(data_check, "BUDGET", 1000)
    found = counted(tiny_base, ["parcel " * 500, "parcel " * 1000])
    assert found._read == 7 * 500
    assert found.lengths.longest_prompt == pytest.approx(1000, abs=20)


def test_without_a_tokenizer_nothing_is_too_long(tmp_path: Path):
    assert counted(tmp_path, ["parcel " * 500]).lengths.dropped == 0


def test_what_the_base_model_reads_is_in_its_configuration(tmp_path: Path):
    assert context_of(tmp_path) > 1_000_000
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 4096}}))
    assert context_of(tmp_path) == 4096
    (tmp_path / "config.json").write_text("[]")
    assert context_of(tmp_path) > 1_000_000


@pytest.mark.django_db
def test_prompts_are_checked_on_the_side_that_is_trained_on(agent, tiny_base: Path):
    rate_prompts(agent, 4)
    for words in (600, 700):
        for value in (1, 0):
            rated(agent, "parcel " * words, f"Answer {value}.", value)
    with pytest.raises(
        NotEnoughData, match=r"2 of 6 prompts .* \(the longest has about 71\d tokens\); with max_length"
    ):
        checked_survey(agent, TrainingConfig(max_length=512), DATA, "dpo", tiny_base)
    assert checked_survey(agent, TrainingConfig(max_length=650), DATA, "dpo", tiny_base).train_rows == 6


def tasks(folder: Path, questions: list[str]) -> RunOptions:
    rows = [{"task_id": str(number), "question": text, "answer": "a"} for number, text in enumerate(questions)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunOptions(data=DataOptions(), dataset_dir=str(folder), eval_split="")


@pytest.mark.django_db
def test_tasks_are_checked_with_room_for_a_turn(agent, tiny_base: Path, tmp_path: Path):
    config = AgentConfig(max_length=512, max_new_tokens=100, environment={"type": "search"})
    options = tasks(tmp_path, ["Where?", "parcel " * 600, "parcel " * 390])
    told = r"2 of 3 prompts have more than 412 tokens, and leave no room for an answer of 100 \(the longest has about 6\d\d"
    with pytest.raises(NotEnoughData, match=told):
        checked_survey(agent, config, options, "agent", tiny_base)
    roomy = replace(config, max_length=900)
    assert checked_survey(agent, roomy, options, "agent", tiny_base).train_rows == 3


@pytest.mark.django_db
def test_tasks_that_are_too_few_or_wrong_are_found_before_there_is_a_run(agent, tiny_base: Path, tmp_path: Path):
    config = AgentConfig(environment={"type": "search"})
    with pytest.raises(BadFile, match="has no tasks"):
        checked_survey(agent, config, tasks(tmp_path, []), "agent", tiny_base)
    wrong = replace(config, environment={"type": "search", "tools": {"serch": {}}})
    with pytest.raises(UsageError, match="unknown entry of tools 'serch'"):
        checked_survey(agent, wrong, tasks(tmp_path, ["Where?"]), "agent", tiny_base)


@pytest.mark.django_db
def test_an_answer_that_leaves_no_room_is_a_wrong_setting(agent, tiny_base: Path):
    agent.answer_format = "json"
    config = GRPOConfig(max_length=64, max_new_tokens=64)
    with pytest.raises(UsageError, match="max_new_tokens 64 leaves no room"):
        checked_survey(agent, config, DATA, "grpo", tiny_base)
