"""Episodes as people read them: one, and those of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, Response, expect

from rl.base.records import Message, ToolCall
from rl.collect.traces.episodes import store_episodes
from rl.environments.contract import ToolRequest
from rl.environments.dialects.hermes import write_calls
from rl.environments.episode import Episode, Turn
from rl.models import Agent, Trace, TrainingRun
from rl.scoring.stored import calculate
from tests.browser.conftest import LiveSite
from tests.browser.test_rating_page import sign_in
from tests.collect.made_episodes import trained

pytestmark = pytest.mark.process


ASKED = """\
A line holds whole numbers with spaces between. Print the sum of those that are even, or 0 where there is none.

Read from stdin, print to stdout."""
FIRST_TRY = """\
numbers = [int(word) for word in "4 7 10".split()]
print(sum(n for n in numbers if n % 2 = 0))"""
SECOND_TRY = FIRST_TRY.replace("n % 2 = 0", "n % 2 == 0")
ANSWER = """\
It works with an example. Now with the numbers from stdin:

```python
numbers = [int(word) for word in input().split()]
print(sum(n for n in numbers if n % 2 == 0))
```"""
WRONG = 'line 2: SyntaxError: expression cannot contain assignment, perhaps you meant "=="?'
TASK = {
    "task_id": "sum-of-even-numbers",
    "prompt": ASKED,
    "tests": [
        {"input": "4 7 10\n", "output": "14", "description": "even and odd"},
        {"input": "1 3 5\n", "output": "0", "description": "none is even"},
        {"input": "-2 2 6\n", "output": "6", "description": "negative numbers"},
    ],
    "reference_solution": "print(sum(n for n in map(int, input().split()) if n % 2 == 0))",
}


def tried(words: str, code: str, **outcome: Any) -> Turn:
    call = ToolCall("exec_code", {"code": code}, **outcome)
    said = f"{words}\n{write_calls([ToolRequest('exec_code', {'code': code})])}"
    return Turn(said, (call,), f"error: {call.error}" if call.error else call.result, tokens=60)


def solved(step: int = 60, sample: int = 1) -> Episode:
    turns = (
        tried("I try it with an example first.", FIRST_TRY, success=False, duration_ms=31.0, error=WRONG),
        tried("A comparison takes two equals signs.", SECOND_TRY, result="14\n", duration_ms=28.0),
        Turn(ANSWER, tokens=54),
    )
    system = Message(role="system", content="You solve programming tasks in Python. Try your code with exec_code.")
    return Episode(
        task_id="sum-of-even-numbers",
        task=TASK,
        environment="code_exec",
        turns=turns,
        reward=1.0,
        success=True,
        prompt=(system, Message(role="user", content=ASKED)),
        reason="all 3 tests passed",
        tokens_in=212,
        seconds=4.2,
        info={"turn": 3, "tool_calls": 2, "tests": 3, "passed": 3},
        split="train",
        step=step,
        sample=sample,
    )


@pytest.fixture
def run(live_site: LiveSite, agent: Agent) -> TrainingRun:
    agent.name = "coder"
    agent.save()
    return TrainingRun.objects.create(agent=agent, method="agent", state=TrainingRun.State.RUNNING, total_steps=100)


@pytest.fixture
def trace(agent: Agent, run: TrainingRun) -> Trace:
    failed = [
        trained("sum-of-even-numbers", step=step, sample=sample, reward=0.0, success=False)
        for step, sample in ((0, 0), (20, 1), (40, 0))
    ]
    store_episodes(agent, [*failed, solved(sample=0), solved()], run)
    calculate(agent)
    return Trace.objects.get(episode__step=60, episode__sample=1)


@pytest.fixture
def reviewer(page: Page, context: BrowserContext, live_site: LiveSite, bob: User) -> Page:
    sign_in(context, live_site, bob)
    return page


def test_a_reviewer_reads_an_episode_turn_by_turn(
    reviewer: Page, live_site: LiveSite, trace: Trace, screenshot
) -> None:
    reviewer.set_viewport_size({"width": 1100, "height": 1400})
    reviewer.goto(f"{live_site.url}/traces/{trace.pk}/")
    episode = reviewer.get_by_label("Episode")
    expect(episode.get_by_role("heading", name="Turn 3")).to_be_visible()
    expect(episode).to_contain_text(WRONG)
    expect(episode).to_contain_text("all 3 tests passed")
    screenshot(reviewer, "episode")
    test = episode.get_by_role("cell", name="none is even")
    expect(test).to_be_hidden()
    episode.get_by_text("The task, with 3 tests").click()
    expect(test).to_be_visible()
    reviewer.get_by_role("link", name="step 20, sample 1").click()
    expect(reviewer.get_by_label("Episode")).to_contain_text("not solved")


def test_an_episode_is_labelled_by_a_key(reviewer: Page, live_site: LiveSite, trace: Trace) -> None:
    reviewer.goto(f"{live_site.url}/traces/{trace.pk}/")
    reviewer.keyboard.press("1")
    expect(reviewer.get_by_text("thumb (0 or 1): 1")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_and_long_episode_fits_a_phone(
    reviewer: Page, live_site: LiveSite, agent: Agent, run: TrainingRun, scheme
) -> None:
    word = "<img/src=x/onerror=alert(1)>" * 8
    call = ToolCall(word, {word: word * 100}, word * 100, False, 5.0, word * 100)
    task = {word: word, "tests": [{"input": word, "output": word, "description": word}]}
    hostile = trained(
        word,
        turns=(Turn(word * 100, (call,), word * 100), Turn(f"```{word}\n{word * 100}\n```")),
        task=task,
        reason=word,
        environment=word,
        info={word: word},
        prompt=(Message(role="user", content=word),),
    )
    store_episodes(agent, [hostile], run)
    reviewer.set_viewport_size({"width": 375, "height": 740})
    reviewer.emulate_media(color_scheme=scheme)
    reviewer.goto(f"{live_site.url}/traces/{Trace.objects.get().pk}/")
    for closed in reviewer.locator("summary").all():
        closed.click()
    assert reviewer.evaluate("document.documentElement.scrollWidth") == 375
    assert reviewer.locator("img").count() == 1  # the site's own


def test_the_page_of_a_run_shows_its_success_while_it_goes_on(
    reviewer: Page, live_site: LiveSite, agent: Agent, run: TrainingRun
) -> None:
    learn(agent, run, range(0, 40, 2))
    reviewer.goto(f"{live_site.url}/runs/{run.pk}/")
    expect(reviewer.locator("#run-success canvas")).to_be_visible()
    worst = reviewer.get_by_role("row", name="task-11")
    expect(worst).to_contain_text("held out")
    expect(worst.locator("svg")).to_be_visible()
    legend = reviewer.locator("#run-success .u-legend")
    expect(legend).to_contain_text("learned from")
    with reviewer.expect_response(lambda answer: "progress.json" in answer.url and is_at(answer, 59)):
        learn(agent, run, range(41, 60, 2))
    worst.get_by_role("link", name="episode").click()
    expect(reviewer.get_by_label("Episode")).to_contain_text("task-11")


def is_at(answer: Response, step: int) -> bool:
    return answer.json()["success"]["step"][-1] == step


def learn(agent: Agent, run: TrainingRun, steps: range) -> None:
    """Twelve tasks, four of them held out; the later ones are harder."""
    store_episodes(
        agent,
        (
            replace(
                trained(f"task-{n}", step, sample),
                split="eval" if n % 3 == 2 else "train",
                success=success,
                reward=float(success),
            )
            for step in steps
            for n in range(12)
            for sample in range(2)
            if n % 3 < 2 or step % 10 in (0, 1)
            for success in [(7 * n + 3 * sample + 5 * step) % 40 < step * 0.9 - 2 * n]
        ),
        run,
    )
