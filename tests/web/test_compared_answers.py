"""Answers before and after: who is the better one by whom, what changed between them, and what the judge went by."""

from typing import Any

import pytest
from django.test import Client

from rl.models import Agent, Evaluation, Feedback, prompt_key
from rl.web.compared_answers import CHOICES, mark_words, name_raters, read_compared, say_why
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = pytest.mark.django_db
PAGES = ("/versions/support-chat/v2/", "/try/support-chat/before-and-after/?version=v2")
JUDGE = {"name": "own", "agreement": {}, "prompts": 78, "opinions": 211, "longer": 0.26, "beats_chance": True}
FRESH = {"kind": "fresh", "share": {"value": 0.986, "low": 0.7, "high": 1.0}, "prompts": 40, "judge": JUDGE}


def row(prompt: str, before: str, after: str, **values: Any) -> dict[str, Any]:
    return {"prompt": prompt, "prompt_key": prompt, "before": before, "after": after, **values}


def evaluate(agent: Agent, *rows: dict[str, Any], **report: Any) -> Evaluation:
    version = make_version(agent, "v2", parent=make_version(agent, "v1"))
    report = {"reason": "", "decided_by": "fresh", "evidence": [FRESH], "compared": rows, **report}
    return make_evaluation(version, make_training_set(agent), against=version.parent, report=report)


def read(client: Client, page: str) -> str:
    return client.get(page).content.decode()


def outcomes(evaluation: Evaluation) -> dict[str, str]:
    return {of.prompt: of.outcome for of in read_compared(evaluation)}


@pytest.mark.parametrize("page", PAGES)
def test_what_it_was_judged_against_is_named_and_so_is_the_judges_pick(staff: Client, agent: Agent, page: str) -> None:
    evaluate(agent, row("q1", "long", "short", side=1.0), row("q2", "good", "bad", side=0.0))
    text = read(staff, page)
    assert text.count('Before <span class="soft">v1</span>') == 2
    assert '<span class="badge good">Judge: v2</span>' in text
    assert '<span class="badge bad">Judge: v1</span>' in text
    assert "the base model" not in text


@pytest.mark.parametrize("page", PAGES)
def test_where_it_lost_is_shown_alone(staff: Client, agent: Agent, page: str) -> None:
    sides = {"lost": 0.0, "won": 1.0, "even": 0.5}
    evaluate(agent, *(row(name, "a", "a" if name == "even" else "b", side=side) for name, side in sides.items()))
    asked = f"{page}{'&' if '?' in page else '?'}answers="
    shown = {
        name: [of.prompt for of in staff.get(asked + name).context["answers"]] for name in CHOICES if name != "weak"
    }
    assert {name: set(prompts) for name, prompts in shown.items()} == {
        "": {"lost", "won", "even"},
        "lost": {"lost"},
        "won": {"won"},
        "changed": {"lost", "won"},
    }
    assert "Where it lost (1)" in read(staff, page)


def test_of_answers_that_are_right_or_wrong_each_says_which_it_is(staff: Client, agent: Agent) -> None:
    rows = [
        row("q1", "repairs", "sales", rewards=[1.0, 0.0], accepted=["repairs"]),
        row("q2", "sales", "returns", rewards=[0.0, 1.0], accepted=["returns"]),
        row("q3", "sales", "sales", rewards=[1.0, 1.0], accepted=["sales"]),
    ]
    evaluation = evaluate(agent, *rows, measure="right", said="Right in 2 of 3 (was 2)", evidence=[])
    assert outcomes(evaluation) == {"q1": "lost", "q2": "won", "q3": "even"}
    text = read(staff, f"{PAGES[1]}&answers=lost")
    assert '<b dir="auto">repairs</b>' in text
    assert '<span class="soft">v1</span> <span class="badge good">right</span>' in text
    assert '<span class="soft">v2</span> <span class="badge bad">wrong</span>' in text


def test_what_people_picked_comes_before_the_judge(staff: Client, agent: Agent) -> None:
    prompt = [{"role": "user", "content": "q1"}]
    evaluation = evaluate(agent, {**row("q1", "old", "new", side=0.0), "prompt_key": prompt_key(prompt)})
    versions = (evaluation.version, evaluation.against)
    left, right = (make_trace(agent, "q1", str(of), model_version=of) for of in versions)
    Feedback.objects.create(
        agent=agent, trace=left, other_trace=right, kind=Feedback.Kind.COMPARISON, choice="left", rater="user:1"
    )
    assert outcomes(evaluation) == {"q1": "won"}
    assert '<span class="badge good">People: v2</span> <span class="badge bad">Judge: v1</span>' in read(
        staff, PAGES[0]
    )


def test_words_added_and_removed_are_marked_and_escaped(staff: Client, agent: Agent) -> None:
    evaluate(agent, row("q1", "Wrap it in <b>a</b> cloth today", "Wrap it in <i>a</i> cloth today", side=1.0))
    text = read(staff, PAGES[0])
    assert "Wrap it in<del> &lt;b&gt;a&lt;/b&gt;</del> cloth today" in text
    assert "Wrap it in<ins> &lt;i&gt;a&lt;/i&gt;</ins> cloth today" in text


@pytest.mark.parametrize(
    ("before", "after"), [("one two three", "four five six"), ("a " * 401, "a " * 400), ("", "new"), ("same", "same")]
)
def test_nothing_is_marked_in_two_texts_that_have_little_in_common_or_are_long(before: str, after: str) -> None:
    assert ["".join(text for text, _ in side) for side in mark_words(before, after)] == [before, after]
    assert all(is_common for side in mark_words(before, after) for _, is_common in side)


def test_why_is_said_from_lengths_and_from_what_the_judge_learned(agent: Agent) -> None:
    for number in range(5):
        rate(make_trace(agent, f"q{number}"), 1, rater=f"simulated-{number}")
    evaluation = evaluate(agent, row("q1", "x" * 199, "x" * 96, side=1.0))
    evaluation.training_set.stats = {"ratings_read": 232, "ratings_usable": 211}
    assert say_why(evaluation, read_compared(evaluation)) == (
        "Shorter: 96 characters instead of 199 on average. The shorter answer was the preferred one on 74 % of 78 rated "
        "prompts; the judge learned from 5 simulated raters, 211 of 232 ratings."
    )


def test_simulated_raters_are_named_and_others_are_not_called_so(staff: Client, agent: Agent) -> None:
    rate(make_trace(agent), 1, rater="user:7")
    evaluation = evaluate(agent, row("q1", "long", "short", side=1.0))
    run = make_run(agent, version=evaluation.version, training_set=evaluation.training_set)
    pages = (*PAGES, f"/runs/{run.pk}/")
    assert not [page for page in pages if ">simulated</span>" in read(staff, page)]
    feedback = rate(make_trace(agent), 1, rater="simulated-1")
    assert name_raters(agent) == "1 rater and 1 simulated rater"
    assert name_raters(agent, evaluation.training_set) == "1 rater", "it came later"
    Feedback.objects.filter(pk=feedback.pk).update(created_at=evaluation.training_set.created_at)
    assert all("1 rater and 1 simulated rater" in read(staff, page) for page in pages)
    assert all(">simulated</span>" in read(staff, page) for page in pages)


def test_where_both_answers_are_weak_the_page_says_so_whichever_wins(staff: Client, agent: Agent) -> None:
    def answered(text: str, *errors: str) -> dict[str, Any]:
        return {"answer": text, "errors": list(errors)}

    samples = [
        {
            "prompt": "q1",
            "base": answered("-"),
            "current": answered("x", "says_little"),
            "new": answered("y", "repeats"),
        },
        {"prompt": "q2", "base": answered("-"), "current": answered("x", "says_little"), "new": answered("good")},
    ]
    rows = [row("q1", "x", "y", side=1.0), row("q2", "x", "good", side=1.0)]
    evaluate(agent, *rows, guards={"samples": samples, "rails": []})
    text = read(staff, PAGES[0])
    assert "At 1 prompt both answers are weak, whichever is preferred." in text
    assert text.count(">says little</span>") == 2
    assert [of.prompt for of in staff.get(f"{PAGES[0]}?answers=weak").context["answers"]] == ["q1"]
