"""Where an instruction is heeded, by answers without it and with it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.models import Agent, Deployment, Trace
from rl.serving.heeded import DryRun, compare_places
from rl.serving.instructions import instruct
from rl.serving.promotion import promote
from tests.serving.gateway.upstream_double import UpstreamDouble, upstream_double

SHORT = "Answer in one short sentence."
THINGS = ["bread", "shoes", "glass", "rice", "wood", "tea", "paper", "wool"]


def long(thing: str) -> str:
    return f"There are many ways to keep {thing} well. First you should look at the {thing} with care, and then go on."


def short(thing: str) -> str:
    return f"Keep {thing} dry."


def rows(question: Any = long, system: Any = long) -> list[dict[str, str]]:
    return [{"": long(thing), "question": question(thing), "system": system(thing)} for thing in THINGS]


def test_the_place_that_changes_the_answers_in_the_same_way_is_taken() -> None:
    found = compare_places(rows(system=short))
    assert (found.better, found.heeded, found.of, found.is_sure) == ("system", {"question": 0, "system": 8}, 8, True)
    found = compare_places(rows(question=short))
    assert (found.better, found.heeded["question"], found.is_sure) == ("question", 8, True)


def test_where_both_places_are_heeded_it_stands_behind_the_question() -> None:
    found = compare_places(rows(short, short))
    assert (found.better, found.heeded) == ("question", {"question": 8, "system": 8})


def test_what_changes_at_random_is_sure_of_nothing() -> None:
    other = [long(thing) for thing in reversed(THINGS)]  # other words at each question, and the same in all
    found = compare_places([{**row, "system": text} for row, text in zip(rows(), other, strict=True)])
    assert (found.better, found.is_sure) == ("question", False)


def test_a_lead_of_few_answers_is_no_reason_to_leave_the_question() -> None:
    mixed = [{**row, "system": row["question"]} for row in rows(question=short)]
    mixed[0]["question"] = mixed[0][""]
    assert compare_places(mixed).better == "question"


def test_without_answers_it_stands_behind_the_question() -> None:
    found = compare_places([])
    assert (found.better, found.of, found.is_sure) == ("question", 0, False)


@pytest.fixture
def upstream() -> Iterator[UpstreamDouble]:
    with upstream_double() as double:
        yield double


@pytest.fixture
def served(agent: Agent, upstream: UpstreamDouble, data_dir: Any) -> Agent:
    Deployment.objects.create(agent=agent, target="openai", url=upstream.url, model_name="m")
    return agent


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_each_question_is_asked_as_in_use_and_in_each_place_and_nothing_is_stored(
    served: Agent, upstream: UpstreamDouble
) -> None:
    promote(served, instruct(served, "Be kind."))
    dry_run = DryRun(served, SHORT, ["Why?", "How?"], 60.0)
    assert asyncio.run(dry_run.work())
    asked = [[message["content"] for message in body["messages"]] for body in upstream.bodies]
    assert sorted(asked[:3]) == sorted([["Why?\n\nBe kind."], [f"Why?\n\n{SHORT}"], [SHORT, "Why?"]])
    assert (len(asked), dry_run.outcome.of) == (6, 2)
    assert dry_run.answers[0].keys() == {"", "question", "system"}
    assert all("says hello" in text and "[" not in text for row in dry_run.answers for text in row.values())
    assert not Trace.objects.exists()
    assert served.versions.count() == 1


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_when_its_time_is_over_what_came_counts(served: Agent, upstream: UpstreamDouble) -> None:
    dry_run = DryRun(served, SHORT, ["Why?"], 0.0)
    assert asyncio.run(dry_run.work())
    assert (dry_run.outcome.of, dry_run.outcome.better) == (0, "question")


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_a_server_that_refuses_ends_it(served: Agent, upstream: UpstreamDouble) -> None:
    Deployment.objects.update(url="http://127.0.0.1:9")
    dry_run = DryRun(served, SHORT, ["Why?", "How?"], 60.0)
    assert asyncio.run(dry_run.work())
    assert dry_run.outcome.of == 0


@pytest.mark.django_db
def test_where_nothing_answers_it_says_so(agent: Agent) -> None:
    with pytest.raises(UsageError, match="nothing serves what is in use of support-chat"):
        DryRun(agent, SHORT, ["Why?"], 1.0)
