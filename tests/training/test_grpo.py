"""The tiny model of ``answering`` thanks or waits; the reward is for thanks."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.errors import BadFile, NotEnoughData, RewardFailed, UsageError
from rl.base.records import AnswerScore, Scorer, TraceRecord, TrainingResult, silent
from rl.config import GRPOConfig
from rl.config.training_job import TrainingJob
from rl.evaluation.torch.scoring import score_versions
from rl.lm import loading
from rl.training import grpo
from rl.training.grpo import StoredRollouts
from tests.training import answering
from tests.training.conftest import (
    SMALL,
    Listener,
    Row,
    kill_and_go_on,
    picture,
    polite_rows,
    same_weights,
    stop_and_go_on,
    write_rows,
)

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]
SHORT: dict[str, Any] = {
    **SMALL,
    "epochs": 1.0,
    "batch_size": 8,
    "learning_rate": 3e-3,
    "num_generations": 4,
    "max_new_tokens": 12,
}
"""Twelve prompts, two a step: six steps."""
MARGIN = 2.0
"""Nats. Measured: 3.1 to 4.5 for generated and 2.5 for stored answers; by chance -2.6 to 1.1, and 0.1."""


def thanks(trace: TraceRecord) -> AnswerScore:
    value = float(trace.response.startswith("Thank"))
    return AnswerScore(value, {"thanks": value, "loss": 0.5})


def by_chance(seed: int) -> Scorer:
    values = random.Random(seed)
    return lambda trace: AnswerScore(values.random())


def prompts(count: int = 12) -> list[Row]:
    return [answering.question(number, asked=number) for number in range(count)]


def stored_rows(count: int = 12) -> list[Row]:
    """Both answers to each question; thanks are rewarded."""
    return [
        {"prompt": row["prompt"], "completions": [row["rejected"], row["chosen"]], "rewards": [0.0, 1.0]}
        for row in polite_rows(count)
    ]


def job(
    base: Path,
    folder: Path,
    rows: list[Row] | None = None,
    *,
    scorer: Scorer | None = thanks,
    resume: bool = False,
    **overrides: Any,
) -> TrainingJob:
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingJob(
        train_rows=write_rows(folder / "train.jsonl", prompts() if rows is None else rows),
        base_model=str(base),
        config=GRPOConfig().with_overrides({**SHORT, **overrides}),
        output_dir=folder / "run",
        resume=resume,
        scorer=scorer,
    )


def gain(base: Path, result: TrainingResult) -> float:
    """Nats by which thanking gained on waiting, on average over questions that were not trained on."""
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(base), adapters, polite_rows(20)[12:], max_length=128, report=silent)
    both = zip(scores["tuned"], scores["base"], strict=True)
    return fmean(new.margin - old.margin for new, old in both if new and old)


@pytest.fixture(scope="module")
def uninterrupted_run(answering_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    return grpo.train(job(answering_base, tmp_path_factory.mktemp("whole")), listener), listener


def test_it_tells_the_rewards_and_what_the_answers_are_like(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert result.steps == 6
    names = {
        "reward",
        "reward_std",
        "equal_groups",
        "kl",
        "completion_length",
        "cut_completions",
        "entropy",
        "clip_ratio",
    }
    assert names <= result.metrics.keys()
    assert result.metrics["thanks"] == result.metrics["reward"]
    assert "2 prompts with 4 answers each a step, 8 answers a forward pass" in listener.log


def test_a_reward_of_the_name_of_a_metric_does_not_take_its_place(uninterrupted_run: Run):
    metrics = uninterrupted_run[0].metrics
    assert metrics["reward_loss"] == 0.5
    assert metrics["loss"] != 0.5


def test_held_out_prompts_are_answered_and_rewarded_now_and_then(
    answering_base: Path, tmp_path: Path, uninterrupted_run: Run
):
    asked = write_rows(
        tmp_path / "heldout.jsonl", [answering.question(number, asked=number) for number in range(20, 26)]
    )
    looking = replace(job(answering_base, tmp_path), heldout_rows=asked, eval_prompts=3, eval_every=2)
    result = grpo.train(looking, silent)
    assert same_weights(result, uninterrupted_run[0])
    rewards = [of.get("held_out_reward") for of in result.history]
    assert [value is not None for value in rewards] == [False, True, False, True, False, True]
    assert all(
        value in (0.0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0) for value in rewards if value is not None
    )
    assert not any("held_out_loss" in of for of in result.history)
    often = grpo.train(replace(looking, eval_every=0, output_dir=tmp_path / "often"), silent)
    assert sum("held_out_reward" in of for of in often.history) in (grpo.LOOKS - 2, grpo.LOOKS - 1, grpo.LOOKS)


def test_answers_that_are_rewarded_keep_to_the_schema(answering_base: Path, tmp_path: Path):
    seen: list[str] = []

    def tell(trace: TraceRecord) -> AnswerScore:
        seen.append(trace.response)
        return AnswerScore(float("yes" in trace.response))

    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["yes", "no"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    made = replace(job(answering_base, tmp_path, scorer=tell, max_new_tokens=40, max_steps=1), schema=schema)
    grpo.train(made, silent)
    assert len(seen) == 8
    begun = ["".join(answer.split()) for answer in seen]  # white space is free, and may fill an answer
    assert all(any(whole.startswith(part) for whole in ('{"a":"yes"}', '{"a":"no"}')) for part in begun)
    assert any(begun)
    with pytest.raises(UsageError, match="neither by vLLM"):
        grpo.train(replace(made, config=replace(made.config, vllm_server="http://127.0.0.1:1")), silent)


@pytest.mark.slow
def test_rewarded_answers_to_new_questions_become_likelier(answering_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    learning = {"seed": 1, "epochs": 2.0, "batch_size": 16, "num_generations": 8}
    result = grpo.train(job(answering_base, tmp_path / "learns", **learning), silent)
    picture(result, "grpo")
    assert gain(answering_base, result) > MARGIN
    control = grpo.train(job(answering_base, tmp_path / "chance", scorer=by_chance(1), **learning), silent)
    assert gain(answering_base, control) < MARGIN


def test_it_learns_from_stored_answers(answering_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    learning = {"seed": 1, "rollouts": "offline", "scorer": None, "epochs": 3.0, "learning_rate": 1e-3}
    result = grpo.train(job(answering_base, tmp_path / "learns", stored_rows(), **learning), silent)
    rows = [{**row, "rewards": row["rewards"][:: 1 if number % 2 else -1]} for number, row in enumerate(stored_rows())]
    control = grpo.train(job(answering_base, tmp_path / "chance", rows, **learning), silent)
    assert gain(answering_base, result) > MARGIN
    assert gain(answering_base, control) < MARGIN / 2


def test_it_may_imitate_the_best_of_the_stored_answers_first(answering_base: Path, tmp_path: Path):
    listener = Listener()
    warm = {"rollouts": "offline", "scorer": None, "sft_epochs": 8.0, "learning_rate": 1e-3, "max_steps": 2}
    result = grpo.train(job(answering_base, tmp_path, stored_rows(), **warm), listener)
    assert "imitates 12 good answers first" in listener.log
    assert result.metrics["kl"] < 0.1, "the warmed-up adapter is what it is held near"
    assert gain(answering_base, result) > 1
    assert [path.name for path in result.weights_dir.iterdir() if path.is_dir()] == []


def test_the_rewards_see_the_prompt_the_answer_its_length_and_the_details(answering_base: Path, tmp_path: Path):
    seen: list[TraceRecord] = []

    def scorer(trace: TraceRecord) -> AnswerScore:
        seen.append(trace)
        return thanks(trace)

    grpo.train(job(answering_base, tmp_path, scorer=scorer, max_steps=1), silent)
    assert len(seen) == 8
    for trace in seen:
        assert trace.question == f"Question number {trace.details['asked']}?"
        assert "<|" not in trace.response
        assert 0 < (trace.tokens_out or 0) <= 12 < (trace.tokens_in or 0)


def test_prompts_are_read_as_a_server_makes_them(answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base, read, draw = Path(shutil.copytree(answering_base, tmp_path / "base")), [], grpo.sample
    chat = loading.load_tokenizer(str(base)).chat_template
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    (base / "chat_template.jinja").write_text(f"{refusal}{chat}{{% if enable_thinking is false %}}<off>{{% endif %}}")
    rows = [{**row, "prompt": [{"role": "system", "content": "Be kind."}, *row["prompt"]]} for row in prompts()]

    def sample(model: Any, tokenizer: Any, prompt_ids: list[list[int]], *how: Any, **options: Any) -> list[list[int]]:
        read.extend(map(tokenizer.decode, prompt_ids))
        return draw(model, tokenizer, prompt_ids, *how, **options)

    monkeypatch.setattr(grpo, "sample", sample)
    grpo.train(job(base, tmp_path, rows, max_steps=1), silent)
    assert len(read) == 8
    assert all(text.startswith("<|im_start|>user\nBe kind.\nQuestion number ") for text in read)
    assert all(text.endswith("<|im_start|>assistant\n<off>") for text in read)


def test_an_answer_without_a_reward_is_left_out(answering_base: Path, tmp_path: Path):
    def only_thanks(trace: TraceRecord) -> AnswerScore:
        return AnswerScore(1.0 if trace.response.startswith("Thank") else None)

    result = grpo.train(job(answering_base, tmp_path, scorer=only_thanks, max_steps=1), silent)
    assert (result.metrics["reward"], result.metrics["reward_std"]) == (1, 0)


def test_where_no_answer_has_a_reward_nothing_is_learned_and_none_is_told(answering_base: Path, tmp_path: Path):
    nothing = job(answering_base, tmp_path, scorer=lambda trace: AnswerScore(None), max_steps=1)
    assert "reward" not in grpo.train(nothing, silent).metrics


def test_a_reward_that_breaks_ends_the_training_with_its_name(answering_base: Path, tmp_path: Path):
    def fail(trace: TraceRecord) -> AnswerScore:
        raise RewardFailed("thanks", "ZeroDivisionError: division by zero")

    with pytest.raises(RewardFailed, match="reward thanks: ZeroDivisionError"):
        grpo.train(job(answering_base, tmp_path, scorer=fail), silent)


def test_it_shows_that_it_is_alive_within_a_step(answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rl.training.callbacks.SECONDS", 0)
    listener = Listener()
    grpo.train(job(answering_base, tmp_path, max_steps=1), listener)
    training = listener.events[listener.events.index(("stage", {"name": "training"})) :]
    first = next(index for index, (event, values) in enumerate(training) if event == "step" and values["metrics"])
    assert first > 12, "a sign for each token at least"


@pytest.mark.parametrize("go_on", [stop_and_go_on, kill_and_go_on])
def test_a_stopped_training_resumes_to_the_same_adapter(
    answering_base: Path, tmp_path: Path, uninterrupted_run: Run, go_on: Any
):
    assert same_weights(go_on(grpo.train, job(answering_base, tmp_path, save_steps=2)), uninterrupted_run[0])


def test_a_killed_training_on_stored_answers_resumes_to_the_same_adapter(answering_base: Path, tmp_path: Path):
    """Within the second epoch, whose order is another than the first one's."""
    offline = {"rows": stored_rows(6), "epochs": 2.0, "rollouts": "offline"}
    whole = grpo.train(job(answering_base, tmp_path / "whole", **offline), silent)
    resumed = kill_and_go_on(grpo.train, job(answering_base, tmp_path / "killed", save_steps=2, **offline))
    assert same_weights(resumed, whole)


@pytest.mark.parametrize(
    ("asked", "count", "given"),
    [
        ((4, 4, 8), 100, (4, 4)),  # two groups
        ((4, 1, 6), 100, (3, 2)),  # one group, more than was asked for
        ((64, 4, 2), 10, (20, 1)),  # no more groups than prompts
        ((1, 16, 8), 100, (1, 16)),
        ((5, 3, 8), 100, (4, 4)),
    ],
)
def test_a_step_holds_whole_groups(asked: tuple[int, int, int], count: int, given: tuple[int, int]):
    batch, passes, size = asked
    shape = {"batch_size": batch, "gradient_accumulation": passes, "num_generations": size}
    config = grpo.whole_groups(GRPOConfig().with_overrides(shape), count, silent)
    assert (config.batch_size, config.gradient_accumulation) == given


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rows": []}, NotEnoughData, "has no prompts to train on"),
        ({"max_new_tokens": 128}, UsageError, "max_new_tokens 128 leaves no room for a prompt in max_length 128"),
        ({"max_new_tokens": 120}, NotEnoughData, "12 of 12 prompts have more than 8 tokens.*with max_length 192 "),
        ({"scorer": None}, UsageError, "need rewards, or a reward model"),
        ({"vllm": True}, UsageError, "--vllm needs a GPU, and there is none here"),
        ({"rows": [{**prompts(1)[0], "details": None}]}, BadFile, r"\(line 1\): details must be an object"),
        ({"rollouts": "offline"}, BadFile, "completions must be a list of lists of messages"),
    ],
)
def test_what_cannot_be_trained_is_told_in_one_sentence(
    answering_base: Path, tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        grpo.train(job(answering_base, tmp_path, **change), silent)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vllm": "yes"}, "vllm must be true or false"),
        ({"vllm_server": "localhost"}, "must be an address such as http"),
        ({"vllm": True, "vllm_server": "http://localhost:8000"}, "choose one"),
    ],
)
def test_impossible_settings_of_vllm_are_refused(values: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        GRPOConfig().with_overrides(values)


def test_a_vllm_server_is_handed_to_the_trainer():
    config = GRPOConfig().with_overrides({"vllm_server": "http://localhost:8000"})
    expected = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://localhost:8000"}
    assert grpo._of_vllm(config) == expected


def draw(answers: int, size: int, seed: int = 1, prompt: str = "0", step: int = 0) -> list[int]:
    draw: Callable[..., list[int]] = StoredRollouts([], size, seed)._draw  # type: ignore[arg-type]
    return draw(answers, prompt, step)


def test_answers_are_drawn_by_seed_row_and_step():
    assert draw(20, 6) == draw(20, 6)
    others = [draw(20, 6, seed=2), draw(20, 6, prompt="1"), draw(20, 6, step=1)]
    assert draw(20, 6) not in others
    assert len(set(draw(20, 6))) == 6


def test_the_answers_of_a_small_group_come_equally_often():
    assert sorted(draw(3, 6)) == [0, 0, 1, 1, 2, 2]
    assert sorted(set(draw(3, 4))) == [0, 1, 2]
