"""Which answers an agent has, and what was corrected, as the gateway and the gate read it."""

import pytest

from rl.collect.feedback import write
from rl.collect.feedback.kept_answers import AgentReader, choosing_for, read_closed_answers, read_kept_answers
from rl.models import Agent, ApiKey, Deployment, Feedback, Trace
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = [pytest.mark.django_db, pytest.mark.database]
TASK = "Which team should answer: cards, cash or identity?\n\nMessage: "


def correct(agent: Agent, message: str, right: str, **options: object) -> Feedback:
    trace = make_trace(agent, TASK + message, "The customer should ask somebody.")
    return write.correct(trace, text=right, **{"rater": "alice", "source": "test", **options}).event


def test_nothing_is_known_before_anybody_accepted_an_answer(agent: Agent):
    make_trace(agent, TASK + "I lost it", "cards")
    assert read_closed_answers(agent) is None


def test_the_first_correction_tells_the_set_where_the_prompt_lists_it(agent: Agent):
    correct(agent, "I lost my card", "Cards.")
    closed = read_closed_answers(agent)
    assert closed is not None
    assert closed.values == ("cards", "cash", "identity")
    assert closed.reason == "the prompt lists 3 answers"
    assert closed.answered == ((TASK + "I lost my card", "cards"),)
    assert closed.remembered.support(TASK + "my card was lost, I lost my card")["cards"] > 3


def test_what_was_corrected_since_a_version_learned_counts_more_for_it(agent: Agent):
    """Not for one that has learned it, nor for the base model, of which the mean over questions is known."""
    events = [correct(agent, f"{text} no longer works", "cards") for text in ("My card", "The chip", "Paying", "This")]
    events.append(correct(agent, "Letters reach me in Finnish since Monday", "identity"))
    events.append(correct(agent, "Too little money came out", "cash"))
    closed = read_closed_answers(agent)
    assert closed is not None
    asked = [{"role": "user", "content": TASK + "Since Friday the letters reach me in Danish"}]
    times = (events[-3].created_at, events[-1].created_at, None)
    unlearned, learned, of_base = (closed.support(asked, at)["identity"] for at in times)
    assert unlearned > learned + 2
    assert learned == of_base


def test_who_asks_without_the_list_is_not_answered_from_it(agent: Agent):
    rate(make_trace(agent, "Do you like cats, dogs or birds?", "dogs"), 1)
    closed = read_closed_answers(agent)
    assert closed is not None
    assert closed.answers([{"role": "user", "content": "Do you like cats, dogs or birds?"}], "") is True
    assert closed.answers([{"role": "user", "content": "What is the capital of France?"}], "") is False


def test_a_list_in_the_system_prompt_is_one_in_every_question(agent: Agent):
    Agent.objects.update(system_prompt="Answer with one of: cards, cash, identity.")
    agent.refresh_from_db()
    write.correct(make_trace(agent, "I lost my card", "Hm."), text="cards", rater="alice", source="test")
    closed = read_closed_answers(agent)
    assert closed is not None
    assert closed.answers([{"role": "user", "content": "Who am I?"}], agent.system_prompt)


def test_without_a_list_twenty_accepted_answers_tell_it(agent: Agent):
    for number in range(19):
        rate(make_trace(agent, f"Message {number}", ("cash", "cards")[number % 2]), 1)
    assert read_closed_answers(agent) is None
    rate(make_trace(agent, "Message 19", "cards"), 1)
    closed = read_closed_answers(agent)
    assert closed is not None
    assert set(closed.values) == {"cash", "cards"}
    assert closed.answers([{"role": "user", "content": "anything"}], "")


def test_short_answers_of_a_chat_are_no_set(agent: Agent):
    for number in range(40):
        rate(make_trace(agent, f"Message {number}", f"Yes, {number // 2}." if number % 4 else f"Of {number}."), 1)
    assert read_closed_answers(agent) is None


def test_the_settings_of_the_agent_come_first(agent: Agent):
    agent.answer_values = ["yes", "no"]
    closed = read_closed_answers(agent)
    assert closed is not None
    assert (closed.values, closed.answered) == (("yes", "no"), ())
    agent.answer_kind = "free"
    assert read_closed_answers(agent) is None


def test_free_answers_are_no_set(agent: Agent):
    for number in range(12):
        rate(make_trace(agent, f"Message {number}", f"Answer number {number} of many."), 1)
    assert read_closed_answers(agent) is None


def test_a_browser_brings_no_new_answer_into_the_set(agent: Agent):
    key = ApiKey.create(name="widget", kind="publishable", agent=agent, allowed_origins=["https://app.example"])[0]
    for number in range(20):
        rate(make_trace(agent, f"Message {number}", ("cash", "cards")[number % 2]), 1)
    correct(agent, "x", "Visit evil.example", api_key=key, rater="device:1")
    correct(agent, "I want money", "cash", api_key=key, rater="device:2")
    closed = read_closed_answers(agent)
    assert closed is not None
    assert set(closed.values) == {"cash", "cards"}
    assert (TASK + "I want money", "cash") in closed.answered


def test_of_one_question_the_newest_word_counts_and_a_retracted_one_does_not(agent: Agent):
    correct(agent, "I lost it", "cash")
    correct(agent, "I lost it", "cards")
    event = correct(agent, "Who am I?", "identity")
    write.retract(event, rater="alice", source="test")
    closed = read_closed_answers(agent)
    assert closed is not None
    assert closed.answered == ((TASK + "I lost it", "cards"),)


def test_the_better_of_two_answers_is_accepted(agent: Agent):
    left, right = (make_trace(agent, TASK + "I lost it", text) for text in ("cash", "cards"))
    write.compare(left, right, choice="right", rater="alice", source="test")
    closed = read_closed_answers(agent)
    assert closed is not None
    assert closed.answered == ((TASK + "I lost it", "cards"),)


def test_it_is_read_again_only_after_somebody_has_said_something(agent: Agent, django_assert_num_queries):
    reader = AgentReader(read_kept_answers)
    reader.look()
    assert reader.of(agent) is None
    with django_assert_num_queries(1):
        reader.look()
        assert reader.of(agent) is None
    correct(agent, "I lost it", "cards")
    reader.look()
    assert reader.of(agent) is not None


def test_a_tested_prompt_is_asked_as_if_it_had_never_been_corrected(agent: Agent):
    for message, right in (("I lost my card", "cards"), ("My card is lost", "cards"), ("Where is my money?", "cash")):
        correct(agent, message, right)
    rows = [{"prompt_key": trace.prompt_key, "prompt": trace.prompt} for trace in Trace.objects.all()]
    assert choosing_for(agent, rows) is None  # Ollama, which says what it likes
    Deployment.objects.create(agent=agent, target="llama_cpp", pid=1, host="here")
    choosing = choosing_for(agent, rows)
    assert choosing is not None
    assert choosing.values == ("cards", "cash", "identity")
    by_text = {row["prompt"][-1]["content"]: choosing.supports[row["prompt_key"]] for row in rows}
    assert by_text[TASK + "Where is my money?"].get("cash", 0.0) == 0.0
    agent.keep_to_answers = False
    assert choosing_for(agent, rows) is None
