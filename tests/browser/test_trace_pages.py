"""Traces as a reviewer reads and labels them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, Response, expect

from rl.base.records import Message, ToolCall
from rl.collect.feedback.write import rate
from rl.collect.traces.episodes import store_episodes
from rl.environments.contract import ToolRequest
from rl.environments.dialects.hermes import write_calls
from rl.environments.episode import PlayedEpisode, Turn
from rl.models import Agent, Feedback, Trace, TrainingRun
from rl.scoring.stored import calculate
from tests.browser.conftest import LiveSite, sign_in
from tests.collect.made_episodes import trained
from tests.conftest import make_trace

pytestmark = pytest.mark.process


HAPPENED = {
    "tool_calls": [
        {
            "tool_name": "find_order",
            "arguments": {"order": "A-1071"},
            "success": True,
            "duration_ms": 38,
            "result": {"carrier": "blue", "state": "left the warehouse"},
        },
        {
            "tool_name": "ask_carrier",
            "arguments": {"parcel": "77-10"},
            "success": False,
            "duration_ms": 2000,
            "error": "the carrier did not answer in time",
        },
    ],
    "reasoning_steps": [
        {"step_type": "plan", "content": "Find the order first, then ask its carrier.", "confidence": 0.8}
    ],
    "tasks": [
        {"task_id": "find", "status": "completed", "description": "find the parcel", "result": "with the carrier"},
        {"task_id": "time", "status": "failed", "description": "when does it arrive?", "error": "no answer"},
    ],
    "rewards": {
        "tool_success": {"value": 0.5, "weight": 2.0, "reason": "1 of 2 tool calls succeeded"},
        "task_completion": {"value": 0.5, "weight": 1.5, "reason": "1 of 2 tasks completed"},
        "efficiency": {"value": 0.9, "weight": 0.5, "reason": "2 tool calls, 412 tokens"},
        "code_execution": {"value": None, "weight": 2.0, "reason": "no code in the answer"},
    },
    "reward": 0.55,
    "reward_pending": False,
    "session_id": "chat-1071",
    "tokens_in": 301,
    "tokens_out": 111,
    "llm_calls": 3,
    "duration_ms": 4210,
}
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


@pytest.fixture
def traces(live_site: LiveSite, agent: Agent) -> list[Trace]:
    first = make_trace(agent, "Where is order A-1071?", "It left our warehouse this morning.", **HAPPENED)
    return [first, make_trace(agent, "Can I still cancel it?", "Not any more.", session_id="chat-1071")]


@pytest.fixture
def reviewer(staff_page: Page, traces: list[Trace]) -> Page:
    return staff_page


def test_a_reviewer_walks_from_the_list_into_a_trace(reviewer: Page, live_site: LiveSite, screenshot) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    screenshot(reviewer, "traces")
    reviewer.get_by_role("row", name="A-1071").get_by_role("link").click()
    expect(reviewer.get_by_text("the carrier did not answer in time")).to_be_visible()
    expect(reviewer.get_by_role("row", name="tool_success")).to_contain_text("1 of 2 tool calls succeeded")
    expect(reviewer.locator("body")).to_have_js_property("scrollWidth", 1100)
    screenshot(reviewer, "trace")
    reviewer.keyboard.press("1")
    expect(reviewer.get_by_text("thumb (0 or 1): 1")).to_be_visible()
    reviewer.get_by_role("link", name="Can I still cancel it?").click()
    expect(reviewer.get_by_text("Not any more.").first).to_be_visible()


def test_a_double_click_on_a_label_is_one(reviewer: Page, live_site: LiveSite, traces: list[Trace]) -> None:
    posts: list[str] = []
    reviewer.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    reviewer.goto(f"{live_site.url}/traces/{traces[0].pk}/")
    reviewer.get_by_role("button", name="Good").dblclick()
    expect(reviewer.get_by_text("thumb (0 or 1): 1")).to_be_visible()
    assert len(posts) == 1


def test_traces_are_searched_and_picked_ones_are_kept_from_training(
    reviewer: Page, live_site: LiveSite, traces: list[Trace]
) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    reviewer.get_by_label("Words, or an id").fill("CANCEL")
    reviewer.get_by_role("button", name="Show").click()
    expect(reviewer.locator("tbody tr")).to_have_count(1)
    expect(reviewer.get_by_text("among the newest 20,000 traces")).to_be_visible()
    reviewer.get_by_label("Pick all on this page").check()
    expect(reviewer.locator("#picked-count")).to_have_text("1 picked")
    with reviewer.expect_download() as download:
        reviewer.get_by_role("button", name="Download as JSONL").click()
    assert download.value.suggested_filename == "traces.jsonl"
    reviewer.get_by_role("button", name="Never train on these").click()
    expect(reviewer.get_by_text("never trained on")).to_be_visible()
    expect(reviewer.get_by_label("Words, or an id")).to_have_value("CANCEL")
    assert [Trace.objects.get(pk=trace.pk).details.get("split") for trace in traces] == [None, "never"]


def test_the_switch_of_the_rating_page_turns_the_keys_off_here_too(
    reviewer: Page, live_site: LiveSite, traces: list[Trace]
) -> None:
    reviewer.goto(f"{live_site.url}/traces/")
    reviewer.evaluate("localStorage.setItem('ratchet-keys-off', '1')")
    reviewer.goto(f"{live_site.url}/traces/{traces[0].pk}/")
    expect(reviewer.locator(".vote kbd").first).to_be_hidden()
    reviewer.keyboard.press("1")
    expect(reviewer.get_by_label("Conversation")).to_contain_text("Where is order A-1071?")
    assert not Feedback.objects.exists()


def test_the_statistics_draw_answers_and_ratings(reviewer: Page, live_site: LiveSite) -> None:
    reviewer.goto(f"{live_site.url}/traces/of/support-chat/")
    expect(reviewer.locator(".chart canvas")).to_have_count(2)
    expect(reviewer.get_by_role("img", name="0 good, 0 bad, 0 otherwise, 2 unrated")).to_be_visible()
    reviewer.get_by_text("The numbers").click()
    expect(reviewer.locator("#days-table tbody tr:visible")).to_have_count(90)
    expect(reviewer.locator(".bars li").filter(has_text="find_order")).to_contain_text("100 % of 1 call")


def test_hostile_and_long_words_fit_a_narrow_screen(reviewer: Page, live_site: LiveSite, agent: Agent) -> None:
    word = "<img/src=x/onerror=alert(1)>" * 8
    long = make_trace(
        agent,
        word,
        word * 500,
        tool_calls=[{"tool_name": word, "arguments": {word: word}, "error": word}],
        reasoning_steps=[{"step_type": word, "content": word, "issues": [word]}],
        session_id=word[:150],
        tasks=[{"task_id": word, "status": "failed", "description": word}],
        rewards={word: {"value": 1, "reason": word}},
    )
    rate(long, rater=word[:200], scale="stars", value=3, tags=[word[:40]], notes=word, source="test")
    reviewer.set_viewport_size({"width": 375, "height": 740})
    for path in (f"/traces/{long.pk}/", "/traces/", "/traces/of/support-chat/"):
        reviewer.goto(f"{live_site.url}{path}")
        assert reviewer.evaluate("document.documentElement.scrollWidth") == 375, path
        assert reviewer.locator("img").count() == 1, path  # the site's own


def tried(words: str, code: str, **outcome: Any) -> Turn:
    call = ToolCall("exec_code", {"code": code}, **outcome)
    said = f"{words}\n{write_calls([ToolRequest('exec_code', {'code': code})])}"
    return Turn(said, (call,), f"error: {call.error}" if call.error else call.result, tokens=60)


def solved(step: int = 60, sample: int = 1) -> PlayedEpisode:
    turns = (
        tried("I try it with an example first.", FIRST_TRY, success=False, duration_ms=31.0, error=WRONG),
        tried("A comparison takes two equals signs.", SECOND_TRY, result="14\n", duration_ms=28.0),
        Turn(ANSWER, tokens=54),
    )
    system = Message(role="system", content="You solve programming tasks in Python. Try your code with exec_code.")
    return PlayedEpisode(
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


def test_a_reviewer_reads_an_episode_turn_by_turn(
    staff_page: Page, live_site: LiveSite, trace: Trace, screenshot
) -> None:
    staff_page.set_viewport_size({"width": 1100, "height": 1400})
    staff_page.goto(f"{live_site.url}/traces/{trace.pk}/")
    episode = staff_page.get_by_label("Episode")
    expect(episode.get_by_role("heading", name="Turn 3")).to_be_visible()
    expect(episode).to_contain_text(WRONG)
    expect(episode).to_contain_text("all 3 tests passed")
    screenshot(staff_page, "episode")
    test = episode.get_by_role("cell", name="none is even")
    expect(test).to_be_hidden()
    episode.get_by_text("The task, with 3 tests").click()
    expect(test).to_be_visible()
    staff_page.get_by_role("link", name="step 20, sample 1").click()
    expect(staff_page.get_by_label("Episode")).to_contain_text("not solved")


def test_an_episode_is_labelled_by_a_key(staff_page: Page, live_site: LiveSite, trace: Trace) -> None:
    staff_page.goto(f"{live_site.url}/traces/{trace.pk}/")
    staff_page.keyboard.press("1")
    expect(staff_page.get_by_text("thumb (0 or 1): 1")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_and_long_episode_fits_a_phone(
    staff_page: Page, live_site: LiveSite, agent: Agent, run: TrainingRun, scheme
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
    staff_page.set_viewport_size({"width": 375, "height": 740})
    staff_page.emulate_media(color_scheme=scheme)
    staff_page.goto(f"{live_site.url}/traces/{Trace.objects.get().pk}/")
    for closed in staff_page.locator("summary").all():
        closed.click()
    assert staff_page.evaluate("document.documentElement.scrollWidth") == 375
    assert staff_page.locator("img").count() == 1  # the site's own


def test_the_page_of_a_run_shows_its_success_while_it_goes_on(
    staff_page: Page, live_site: LiveSite, agent: Agent, run: TrainingRun
) -> None:
    learn(agent, run, range(0, 40, 2))
    staff_page.goto(f"{live_site.url}/runs/{run.pk}/")
    expect(staff_page.locator("#run-success canvas")).to_be_visible()
    worst = staff_page.get_by_role("row", name="task-11")
    expect(worst).to_contain_text("held out")
    expect(worst.locator("svg")).to_be_visible()
    legend = staff_page.locator("#run-success .u-legend")
    expect(legend).to_contain_text("learned from")
    with staff_page.expect_response(lambda answer: "progress.json" in answer.url and is_at(answer, 59)):
        learn(agent, run, range(41, 60, 2))
    worst.get_by_role("link", name="episode").click()
    expect(staff_page.get_by_label("Episode")).to_contain_text("task-11")


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


def test_times_are_those_of_the_readers_zone(browser: Browser, live_site: LiveSite, agent: Agent, bob: User) -> None:
    trace = make_trace(agent)
    Trace.objects.filter(pk=trace.pk).update(created_at=datetime(2026, 1, 2, 20, 30, tzinfo=UTC))
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(f"{live_site.url}/login/")
    sign_in(context, live_site, bob)
    page.goto(f"{live_site.url}/traces/")
    expect(page.get_by_text("2026-01-03 05:30")).to_be_visible()
    context.close()
