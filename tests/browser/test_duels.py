"""Two answers side by side on the real gateway: a question, a vote by key, the names, undo, an edit, and going on."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.models import Agent, AnswerPair, Deployment, Feedback, Trace, TrainingRun
from rl.models.traces import GATEWAY
from rl.web.conversations import session_of
from tests.admin.records import make_run
from tests.browser.axe import findings
from tests.browser.conftest import Console, LiveSite, look_again, sign_in
from tests.browser.test_try_page import ask
from tests.conftest import make_trace
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until
from tests.web.front.in_thread import serve_by

pytestmark = pytest.mark.process


@pytest.fixture
def duel(
    page: Page, context: BrowserContext, agent: Agent, upstream: UpstreamDouble, bob: User, site: LiveSite
) -> Page:
    serve_by(upstream, agent)
    Deployment.objects.create(agent=agent, target="openai", url=upstream.url, model_name="the-base")
    sign_in(context, site, bob)
    page.goto(f"{site.url}/try/")
    expect(page.get_by_label("Your question")).to_be_focused()
    return page


def asked_before(agent: Agent, user: User, question: str, answer: str) -> None:
    """By the base model, in a conversation of its own."""
    session = session_of(user.pk, question.split()[-1].strip("?"))
    make_trace(agent, question, answer, source=GATEWAY, session_id=session)


def newest(page: Page, part: str):
    return page.locator(f".duel:last-child {part}")


def test_one_asks_votes_takes_back_edits_and_goes_on_from_the_winner(duel: Page, upstream: UpstreamDouble) -> None:
    expect(duel.locator("#votes-text")).to_have_text("0 of 100 votes to the next training")
    expect(duel.locator("#hint")).to_be_visible()
    duel.get_by_label("Go on from the better answer").check()
    ask(duel, "talk slowly")
    expect(newest(duel, ".side[data-side=b] .answer")).to_contain_text("says")
    duel.keyboard.press("ArrowRight")
    expect(newest(duel, ".saved")).to_have_text("B is better. Saved.")
    shown = newest(duel, ".version").all_inner_texts()
    assert sorted(text.split(" · ")[0] for text in shown) == ["base", "v2 (in use)"]
    expect(duel.locator("#votes-text")).to_have_text("1 of 100 votes to the next training")
    expect(duel.locator("#hint")).to_be_hidden()
    pair, event = AnswerPair.objects.get(), Feedback.objects.get()
    assert (event.trace_id, event.other_trace_id, event.choice) == (pair.left_id, pair.right_id, "right")
    duel.keyboard.press("z")
    expect(newest(duel, ".saved")).to_contain_text("Taken back.")
    assert not Feedback.objects.filter(is_current=True).exists()
    duel.keyboard.press("b")
    expect(newest(duel, ".saved")).to_have_text("B is better. Saved.")
    duel.keyboard.press("e")
    duel.keyboard.type("Hello! ")
    duel.keyboard.press("Control+Enter")
    expect(newest(duel, ".saved")).to_have_text("Your version is saved.")
    assert Feedback.objects.get(kind="correction", is_current=True).trace_id == pair.right_id
    duel.keyboard.press("/")
    duel.keyboard.type("and then?")
    duel.keyboard.press("Enter")
    expect(newest(duel, ".question")).to_have_text("and then?")
    expect(newest(duel, ".side[aria-busy=false]")).to_have_count(2)
    winner = duel.locator(".duel").first.locator("[data-side=b] .answer").inner_text()
    assert [message["content"] for message in upstream.last["messages"]] == ["talk slowly", winner, "and then?"]
    duel.keyboard.press("s")
    expect(newest(duel, ".saved")).to_have_text("Skipped.")
    assert Feedback.objects.filter(kind="comparison", is_current=True).count() == 1
    duel.get_by_label("Go on from the better answer").uncheck()
    ask(duel, "something else")
    expect(newest(duel, ".side[aria-busy=false]")).to_have_count(2)
    assert [message["content"] for message in upstream.last["messages"]] == ["something else"]


def test_a_vote_counts_before_the_answers_end_and_one_without_an_answer_is_void(duel: Page, console) -> None:
    console.allow("the server responded with a status of")
    ask(duel, "talk slowly")
    expect(newest(duel, ".side[data-side=a] .answer")).not_to_be_empty()
    newest(duel, ".votes").get_by_role("button", name="Both bad").click()
    expect(newest(duel, ".saved")).to_have_text("Both are bad. Saved.")
    assert Feedback.objects.get().choice == "both_bad"
    ask(duel, "status 500")
    expect(newest(duel, ".saved")).to_have_text("There is nothing to compare.")
    expect(newest(duel, ".ending").first).to_contain_text("this answer did not come")
    expect(newest(duel, ".votes")).to_be_hidden()
    expect(duel.get_by_label("Your question")).to_have_value("status 500")


def test_two_equal_answers_are_not_a_choice(duel: Page, upstream: UpstreamDouble) -> None:
    upstream.script["What is yeast?"] = dict.fromkeys(("support-chat-v2", "the-base"), "A fungus.")
    ask(duel, "What is yeast?")
    expect(newest(duel, ".saved")).to_have_text("Both answers are the same: nothing to compare.")
    expect(newest(duel, ".votes")).to_be_hidden()
    duel.keyboard.press("a")
    assert not Feedback.objects.exists()


def test_what_the_better_one_should_have_been_stays_in_sight_until_it_is_taken_back(duel: Page) -> None:
    ask(duel, "talk slowly")
    duel.keyboard.press("ArrowRight")
    expect(newest(duel, ".saved")).to_have_text("B is better. Saved.")
    expect(newest(duel, ".edited")).to_be_hidden()
    duel.keyboard.press("e")
    duel.keyboard.type("<b>Good day!</b> ")
    duel.keyboard.press("Control+Enter")
    expect(newest(duel, ".edited .text")).to_contain_text("<b>Good day!</b>")
    duel.keyboard.press("z")
    expect(newest(duel, ".edited")).to_be_hidden()


def test_one_model_on_both_sides_is_named_as_one_after_the_vote(duel: Page) -> None:
    side = {"version": "v2", "in_use": True, "words": 3}
    duel.route("**/vote/", lambda route: route.fulfill(json={"sides": [side, side], "waiting": 1, "needed": 100}))
    ask(duel, "talk slowly")
    duel.keyboard.press("ArrowRight")
    expect(newest(duel, ".saved")).to_have_text("B is better. Saved. Both are the same model, asked twice.")


def test_both_can_be_stopped_and_compared(duel: Page, console: Console) -> None:
    console.allow(
        "the server responded with a status of 400"
    )  # a vote before the stopped answers are stored: sent again
    ask(duel, "talk for ever")
    for side in "ab":
        expect(newest(duel, f".side[data-side={side}] .answer")).to_contain_text("more")
    duel.keyboard.press("Escape")
    expect(newest(duel, ".ending").first).to_have_text("Stopped.")
    duel.keyboard.press("e")
    expect(newest(duel, ".saved")).to_have_text("A tie. Saved.")


def test_training_starts_and_its_curve_comes_without_loading_the_page_anew(duel: Page) -> None:
    ask(duel, "hello")
    duel.get_by_role("button", name="Train now").click()
    expect(duel.locator("#run")).to_be_visible()
    run = TrainingRun.objects.get()
    run.metric_points.create(step=1, values={"loss": 0.7})
    run.metric_points.create(step=2, values={"loss": 0.6})
    TrainingRun.objects.update(state="running", stage="training", step=2, total_steps=4)
    expect(duel.locator("#run-steps")).to_have_text("2 of 4 steps")
    expect(duel.locator("#run-chart canvas")).to_be_visible()
    duel.get_by_role("button", name="Cancel").click()
    expect(duel.locator("#training-status")).to_have_text(f"Training {run.pk} stops after its current step.")
    assert TrainingRun.objects.get().cancel_requested
    TrainingRun.objects.update(state="cancelled")
    expect(duel.locator("#run-ended-text")).to_contain_text("The training was cancelled.")
    expect(duel.get_by_role("button", name="Cancel")).to_have_count(0)
    assert duel.locator(".duel").count() == 1


def test_an_open_page_notices_a_training_that_started_by_itself(duel: Page, agent: Agent) -> None:
    ask(duel, "talk slowly")
    expect(newest(duel, ".answer.markdown")).to_have_count(2)
    run = make_run(agent, TrainingRun.State.RUNNING, step=3, total_steps=4)
    look_again(duel)
    expect(duel.locator("#run-steps")).to_have_text("3 of 4 steps")
    expect(duel.locator("#run")).to_have_attribute("data-progress", f"/runs/{run.pk}/progress.json")
    assert duel.locator(".duel").count() == 1


def test_votes_say_whose_ratings_count(duel: Page) -> None:
    expect(duel.locator("#tastes")).to_be_empty()
    ask(duel, "talk slowly")
    duel.keyboard.press("ArrowRight")
    expect(duel.locator("#tastes")).to_contain_text("Ratings that count: 1 yours.")


def test_ones_own_questions_are_read_before_and_after_and_the_missing_answer_is_asked_for(
    duel: Page,
    agent: Agent,
    bob: User,
    screenshot,
) -> None:
    duel.get_by_role("button", name="before and after").click()
    expect(duel.locator("#own-none")).to_be_visible()
    asked_before(agent, bob, "Where is my parcel?", "The weather will be fine.")
    asked_before(agent, bob, "Can I pay by card?", "support-chat-v2 says good evening.")
    duel.get_by_role("button", name="before and after").click()
    expect(duel.locator("#own-list li")).to_have_count(2)
    expect(duel.locator("#own-list h3").first).to_have_text("Can I pay by card?")
    expect(duel.locator(".after-text").last).to_contain_text("says hello")
    assert duel.locator(".before-text").first.locator("del").all_inner_texts() == ["good", "evening."]
    expect(duel.locator(".after-text").first.locator("ins").first).to_be_visible()
    expect(duel.locator("#own-list li").last.locator("ins, del")).to_have_count(0)
    assert findings(duel) == []
    screenshot(duel, "try-own-questions")
    answered = Trace.objects.filter(model_version__name="v2")
    until(lambda: answered.count() == 2)
    duel.reload()
    duel.get_by_role("button", name="before and after").click()
    expect(duel.locator(".after-text").last).to_contain_text("says hello")
    assert answered.count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_a_desk(duel: Page, scheme: str, screenshot) -> None:
    duel.emulate_media(color_scheme=scheme)
    duel.set_viewport_size({"width": 1280, "height": 800})
    ask(duel, "word" * 100)
    expect(newest(duel, ".side[aria-busy=false]")).to_have_count(2)
    sides = [box for side in newest(duel, ".side").all() if (box := side.bounding_box())]
    assert sides[0]["y"] == sides[1]["y"]
    screenshot(duel, f"try-duel-{scheme}")
    assert findings(duel) == []
    duel.set_viewport_size({"width": 375, "height": 700})
    assert duel.evaluate("document.documentElement.scrollWidth") <= 375
    newest(duel, ".votes").scroll_into_view_if_needed()
    for name in ("A is better", "B is better"):
        box = duel.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert (box["height"] >= 44, box["width"] >= 140, box["y"] + box["height"] <= 700) == (True, True, True)
    screenshot(duel, f"try-duel-phone-{scheme}")
    assert findings(duel) == []
    duel.get_by_role("button", name="A is better").click()
    expect(newest(duel, ".saved")).to_have_text("A is better. Saved.")
    newest(duel, ".rewrite").click()
    screenshot(duel, f"try-voted-phone-{scheme}")
    assert findings(duel) == []
