"""What a run has to do, counted from its rows."""

import pytest

from rl.config import config_class
from rl.dataset_builder import DataOptions
from rl.models import Agent
from rl.runs.choosing import RunOptions
from rl.runs.workload import Run, Texts
from tests.hardware.test_cost import TIMED


def said(role: str, characters: int) -> dict[str, str]:
    return {"role": role, "content": "x" * characters}


def pair(prompt: int, chosen: int, rejected: int, system: int = 0) -> dict:
    opening = [said("system", system)] if system else []
    return {
        "prompt": [*opening, said("user", prompt)],
        "chosen": [said("assistant", chosen)],
        "rejected": [said("assistant", rejected)],
    }


def texts_of(*rows: dict) -> Texts:
    texts = Texts()
    for row in rows:
        texts.saw(row)
    return texts


def planned(method: str = "dpo", options: dict | None = None, **changes) -> Run:
    config = config_class(method)(**changes.pop("config", {}))
    return Run(
        **{
            "agent": Agent(name="support-chat", response_length=200),
            "config": config,
            "method": method,
            "options": RunOptions(data=DataOptions(), **(options or {})),
            "rows": 40,
            "heldout_rows": 20,
            "heldout_prompts": 20,
            "has_champion": False,
            **changes,
        }
    )


def test_rows_are_counted_in_tokens_with_the_templates_own():
    work = planned().workload(texts_of(pair(40, 80, 160), pair(40, 80, 160)), 4.0, TIMED)
    assert work.answer_tokens == 30
    assert work.tokens == 10 + 31 + 30
    assert work.longest == pytest.approx(10 + 31 + 40, abs=0.1)  # eight answers a pass: one of them is a long one


def test_a_system_prompt_of_ones_own_takes_the_place_of_the_templates():
    rows = [pair(40, 80, 80, system=400), pair(40, 80, 80)]
    assert planned().workload(texts_of(rows[0]), 4.0, TIMED).tokens == 110 + 15 + 20
    assert planned().workload(texts_of(*rows), 4.0, TIMED).tokens == 60 + 23 + 20


def test_the_longest_of_some_rows_is_nearer_to_the_end_the_more_there_are():
    texts = texts_of(pair(0, 10, 20), pair(0, 30, 40))
    assert texts.longest_of(1) == 25
    assert 25 < texts.longest_of(2) < texts.longest_of(8) < 40


def test_what_imitates_works_on_accepted_answers_each_once():
    disliked = {**pair(40, 80, 160), "chosen": None}
    texts = texts_of(pair(40, 80, 160), pair(40, 80, 150), disliked, disliked)
    assert planned("sft").workload(texts, 4.0, TIMED).rows == 10
    assert planned().workload(texts, 4.0, TIMED).rows == 40


def test_held_out_prompts_are_asked_sixteen_guarded_and_room_left_by_the_stored_answers(settings):
    texts = texts_of(pair(40, 80, 160))
    work = planned().workload(texts, 4.0, TIMED)
    assert (work.asked_prompts, work.guarded_prompts, work.asked_tokens, work.models) == (20, 16, 60, 2)
    assert work.judged_answers >= 2 * 20 + 2 * work.heldout_rows
    settings.EVALUATION_PROMPTS = 18
    assert planned().workload(texts, 4.0, TIMED).asked_prompts == 18
    few = planned(heldout_prompts=3, has_champion=True, config={"max_length": 64}).workload(texts, 4.0, TIMED)
    assert (few.asked_prompts, few.asked_tokens, few.models) == (3, 32, 3)
    assert planned("reward_model").workload(texts, 4.0, TIMED).asked_prompts == 0


def test_answers_that_are_generated_may_be_as_long_as_is_allowed():
    prompts = texts_of({"prompt": [said("user", 40)]})
    work = planned("grpo", config={"max_new_tokens": 100}).workload(prompts, 4.0, TIMED)
    assert (work.answer_tokens, work.tokens, work.longest) == (100, 10 + 31 + 100, 10 + 31 + 100)
    assert (work.asked_tokens, work.asked_prompts, work.judged_answers) == (100, 16, 0)


@pytest.mark.parametrize(("options", "exports"), [({}, False), ({"export": True}, True), ({"deploy": "ollama"}, True)])
def test_a_run_exports_where_it_is_asked_to(options, exports):
    assert planned(options=options).workload(texts_of(pair(1, 1, 1)), 4.0, TIMED).exports is exports


@pytest.mark.parametrize(
    ("raters", "config", "rows"),
    [
        ((), {}, 0),
        (("a", "b"), {}, 0),
        (("a", "b", "c"), {}, 40),
        (("a", "b", "c"), {"weigh_raters": False}, 0),
        ((), {"fresh_answers": 4}, 40),
    ],
)
def test_ratings_are_weighed_where_several_people_rated(raters, config, rows):
    texts = texts_of(*({**pair(40, 80, 80), "votes": [[rater, True]]} for rater in raters), pair(40, 80, 80))
    assert planned("mpo", config=config).workload(texts, 4.0, TIMED).weighed_rows == rows


def test_a_cross_fitted_run_imitates_asks_all_models_its_tested_prompts_and_no_judge():
    config = {"preferences": False}
    run = planned("mpo", config=config, heldout_rows=0, heldout_prompts=0, folds=3, tested=40, tested_share=1.0)
    work = run.workload(texts_of({**pair(40, 80, 80), "votes": [["a", 1], ["b", 1], ["c", 1]]}), 4.0, TIMED)
    assert run.trains_as == "sft"
    assert (work.folds, work.tested_prompts, work.tested_share) == (3, 40, 1.0)
    assert (work.asked_prompts, work.judged_answers, work.weighed_rows) == (40, 0, 0)
