"""What each training command makes of data that is too little, too uniform or too long, before any model is loaded."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from django.core.management import CommandError, call_command

from rl.dataset_builder import is_held_out
from rl.models import Agent, TrainingRun, prompt_key
from rl.rewards import REWARDS
from rl.training.preparing import Start
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate
from tests.web.api.conftest import Caller, assert_problem

pytestmark = [pytest.mark.learn, pytest.mark.django_db, pytest.mark.usefixtures("timed_before")]
METHODS = {
    "dpo": ("train_dpo",),
    "kto": ("train_kto",),
    "grpo": ("train_grpo", "--num-generations", "2", "--max-new-tokens", "4"),
    "grpo-offline": ("train_grpo", "--rollouts", "offline", "--num-generations", "2"),
    "ppo": ("train_ppo", "--max-new-tokens", "4", "--batch-size", "4"),
    "reward_model": ("train_reward_model",),
}
FRESH = ("grpo", "ppo")
PROMPTS = 14
LONG, HUGE = "parcel " * 3000, "parcel " * 10_000


class Loaded(Exception):
    """A model was about to be loaded."""


@pytest.fixture(autouse=True)
def ready(agent: Agent, data_dir, tiny_base) -> Agent:
    quick = {"batch_size": 4, "gradient_accumulation": 1, "max_length": 256, "lora_r": 4, "max_steps": 1}
    fields = {"base_model": str(tiny_base), "answer_format": "json", "response_length": 16}
    Agent.objects.filter(pk=agent.pk).update(**fields, training_overrides=quick)
    agent.refresh_from_db()
    return agent


@pytest.fixture
def no_model(monkeypatch):
    def refuse(*arguments, **options):
        raise Loaded

    monkeypatch.setattr(Start, "model", refuse)


def fill(
    agent: Agent,
    *,
    prompts: int = PROMPTS,
    ratings: Sequence[float] = (1, 0),
    rewards: Sequence[float | None] = (0.9, 0.1),
    empty: Callable[[int, int], bool] = lambda number, answer: False,
    long: Sequence[int] = (),
) -> None:
    """Two answers to each prompt; without ``ratings`` nobody has rated them."""
    for number in range(prompts):
        question = f"Question {number}? {LONG if number in long else ''}"
        for answer, reward in enumerate(rewards):
            blank = ("", " \n")[number % 2]
            text = blank if empty(number, answer) else f"Answer {answer} to {number}."
            trace = make_trace(agent, question, text, reward=reward, reward_pending=False)
            if ratings and (text or answer):
                rate(trace, ratings[answer], scale="score")


def answer_twice(agent: Agent, question: str) -> None:
    for value, text in ((1, "Good."), (0, "Bad.")):
        rate(make_trace(agent, question, text, reward=0.8 * value, reward_pending=False), value)


def without_rewards(agent: Agent) -> None:
    agent.answer_format, agent.reward_weights = "", dict.fromkeys(REWARDS, 0)
    agent.save()
    fill(agent, ratings=(), rewards=(None, None))


def without_one_that_applies(agent: Agent) -> None:
    agent.answer_format = ""
    agent.save()
    fill(agent, ratings=(), rewards=(None, None))


CASES: dict[str, Callable[[Agent], None]] = {
    "all equal": partial(fill, ratings=(0.5, 0.5), rewards=(0.5, 0.5)),
    "only good": partial(fill, ratings=(1, 1), rewards=(0.9, 0.9)),
    "only bad": partial(fill, ratings=(0, 0), rewards=(0.1, 0.1)),
    "some empty": partial(fill, empty=lambda number, answer: answer == 1 and number < 3),
    "all empty": partial(fill, empty=lambda number, answer: True),
    "most long": partial(fill, long=range(8)),
    "all long": partial(fill, long=range(PROMPTS)),
    "weights 0": without_rewards,
    "no reward applies": without_one_that_applies,
    "nothing": lambda agent: None,
    "few": partial(fill, prompts=3),
}
SAME_SCORE = (
    "no answers make a pair, and all 24 scored answers to train on have the score {}: a reward model learns from"
)
EQUAL = "14 prompts whose answers have equal rewards, which teach nothing: let the agent answer again"
NO_ANSWERS = "support-chat has no answers yet, and 10 rows to train on are needed: send or import answers"
TOO_LONG = "the base model reads 2048 tokens: raise max_length up to that and shorten or delete the longest prompts"
NO_WEIGHT = (
    "no reward of support-chat that is switched on can judge an answer that was just generated: give one of these"
)
REFUSED: dict[str, dict[str, str]] = {
    "all equal": {
        "dpo": "14 prompts have no answer that more raters like than not, or the reverse: rate their",
        "reward_model": SAME_SCORE.format(0.5),
        "kto": "give 0 labelled answers, and 10 are needed. rate 10 more answers, up or down",
        "grpo-offline": EQUAL,
    },
    "only good": {
        "dpo": "14 prompts have only liked answers: rate a second answer of them down",
        "reward_model": SAME_SCORE.format(1),
        "kto": "labelled answers to train on are good, and KTO learns from the difference: rate some bad answers down",
        "grpo-offline": EQUAL,
    },
    "only bad": {
        "dpo": "14 prompts have only disliked answers: rate another answer of them up",
        "reward_model": SAME_SCORE.format(0),
        "kto": "labelled answers to train on are bad, and KTO learns from the difference: rate some good answers up",
        "grpo-offline": EQUAL,
    },
    "some empty": {},
    "all empty": {
        "dpo": "14 prompts have only empty answers: collect answers with text",
        **dict.fromkeys(("kto", "grpo-offline", "reward_model"), "are empty: collect answers with text"),
    },
    "most long": dict.fromkeys(METHODS, TOO_LONG),
    "all long": dict.fromkeys(METHODS, TOO_LONG),
    "weights 0": {
        "dpo": "rate two answers to one prompt, one up and one down, to make the first pair",
        "reward_model": "rate 10 more answers, by thumb, stars or score",
        "kto": "rate 10 more answers, up or down",
        "grpo-offline": "no reward applies: set the agent's answer format or reward weights, or rate answers",
        **dict.fromkeys(FRESH, NO_WEIGHT),
    },
    "no reward applies": {
        "dpo": "rate two answers to one prompt, one up and one down, to make the first pair",
        "reward_model": "rate 10 more answers, by thumb, stars or score",
        "kto": "rate 10 more answers, up or down",
        "grpo-offline": "no reward applies: set the agent's answer format or reward weights, or rate answers",
        **dict.fromkeys(FRESH, "no reward applies to any of the 20 newest answers of support-chat"),
    },
    "nothing": {
        **dict.fromkeys(METHODS, NO_ANSWERS),
        **dict.fromkeys(
            FRESH, "support-chat has 0 prompts, and 10 are needed: send or import answers to 10 more prompts"
        ),
    },
    "few": {
        "dpo": "6 ratings of 3 prompts give 3 pairs, and 10 are needed: about 14 more ratings",
        "reward_model": "3 pairs and 0 single scored answers make 3 rows, and 10 are needed. rate 7 more answers",
        "kto": "give 6 labelled answers, and 10 are needed. rate 4 more answers, up or down",
        "grpo-offline": "3 prompts have answers whose rewards differ, and 10 are needed",
        **dict.fromkeys(
            FRESH, "support-chat has 3 prompts, and 10 are needed: send or import answers to 7 more prompts"
        ),
    },
}
"""Case to method to the words of its refusal; a method that is not there goes on to train."""
TABLE = [pytest.param(method, case, id=f"{method}-{case.replace(' ', '-')}") for case in CASES for method in METHODS]


def refusal(method: str, *options: str) -> str:
    """The one line with which the command ends, with exit code 3."""
    command, *own = METHODS[method]
    with pytest.raises(CommandError) as error:
        call_command(command, "--agent", "support-chat", *own, *options)
    assert error.value.returncode == 3
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("method", "case"), TABLE)
def test_bad_data_ends_in_one_sentence_before_a_model_is_loaded(ready, no_model, capsys, method: str, case: str):
    CASES[case](ready)
    command, *own = METHODS[method]
    if sentence := REFUSED[case].get(method):
        assert sentence in refusal(method)
        assert sentence in refusal(method, "--dry-run")
        assert TrainingRun.objects.get().state == TrainingRun.State.FAILED
    else:
        call_command(command, "--agent", "support-chat", *own, "--dry-run")
        with pytest.raises(Loaded):
            call_command(command, "--agent", "support-chat", *own)
    assert "loading the base model" not in capsys.readouterr().err


def huge_prompt(agent: Agent, *, held_out: bool) -> str:
    """On this side of the split."""
    asked = (f"Number {number}: {HUGE}" for number in range(100))
    return next(
        text
        for text in asked
        if is_held_out(agent.name, prompt_key([{"role": "user", "content": text}]), 0.2) == held_out
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_huge_prompt_is_left_out_of_the_training_and_another_of_its_measurement(ready, method: str):
    fill(ready)
    for held_out in (False, True):
        answer_twice(ready, huge_prompt(ready, held_out=held_out))
    command, *own = METHODS[method]
    call_command(command, "--agent", "support-chat", *own)
    run = TrainingRun.objects.get()
    told = run.log_path.read_text()
    assert "1 of " in told or "2 of " in told  # KTO has a row for each answer
    assert "(the longest has 10017 tokens); they are left out" in told
    assert run.version.evaluations.get().report["unscored"] >= 1


def test_the_pipeline_refuses_with_the_same_sentence(ready, no_model):
    CASES["only good"](ready)
    sentence = refusal("kto")
    for more in ((), ("--dry-run",)):
        with pytest.raises(CommandError) as error:
            call_command("run_pipeline", "--agent", "support-chat", "--method", "kto", *more)
        assert (error.value.returncode, str(error.value)) == (3, sentence)


@pytest.mark.parametrize(("method", "case"), [("dpo", "only bad"), ("ppo", "weights 0"), ("grpo", "most long")])
def test_the_api_refuses_with_the_same_sentence_and_queues_nothing(ready, secret_key, method: str, case: str):
    CASES[case](ready)
    if case == "weights 0":
        fill(ready, rewards=(None, None))
    body = {"method": method, **({"maxNewTokens": 4} if method in FRESH else {})}
    for more in ({}, {"dryRun": True}):
        answer = Caller(secret_key).post("/api/policies/train_policy/support-chat/", {**body, **more})
        assert_problem(answer, 400, REFUSED[case][method])
    assert not TrainingRun.objects.exists()
