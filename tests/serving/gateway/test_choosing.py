"""Chooses among the answers of a closed set, by a double of llama.cpp's own addresses."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from rl.collect.feedback.kept_answers import ClosedAnswers
from rl.data_formatter.answer_tree import Remembered
from rl.serving.dialects.dialect import ChatForm
from rl.serving.gateway import choosing
from rl.serving.gateway.app import application
from rl.serving.gateway.chat_request import parse_request
from rl.serving.gateway.choosing import Chooser, is_chosen
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.gateway import Gateway
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, Served
from rl.serving.gateway.turns import Turns
from rl.serving.upstreams import Upstream

KEY = KnownKey(1, True, None)
VALUES = ("cards", "cash", "identity", "cash back")
PAST = tuple([{"role": "user", "content": f"past {number}"}] for number in range(6))
NOON = datetime(2030, 5, 1, 12, tzinfo=UTC)
LARGER = Served(None, "big", Upstream("http://large.example/v1", "big-model"))
Shares = dict[str, float]


class LlamaDouble:
    """Tokens are the numbers of characters. What comes after a prefix is as likely as ``shares`` says."""

    def __init__(self, shares: dict[str, Shares]) -> None:
        self.shares = shares
        self.bodies: list[dict[str, Any]] = []
        self.broken = False
        self.larger = ""
        """What the larger model says; nothing: it is out of order."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.host == "large.example":
            self.bodies.append(body)
            given = {"index": 0, "message": {"role": "assistant", "content": self.larger}, "finish_reason": "stop"}
            return httpx.Response(200 if self.larger else 500, json={"id": "1", "choices": [given]})
        if self.broken:
            return httpx.Response(500, json={"error": {"message": "out of order"}})
        if request.url.path == "/apply-template":
            assert body["chat_template_kwargs"]["enable_thinking"] is False  # of past questions too
            return httpx.Response(200, json={"prompt": f"{body['messages'][-1]['content']}>"})
        if request.url.path == "/tokenize":
            return httpx.Response(200, json={"tokens": [*map(ord, body["content"])]})
        assert request.url.path == "/completion"
        self.bodies.append(body)
        prefix = "".join(map(chr, body["prompt"])).partition(">")[2]
        probs = [{"id": ord(token), "prob": share} for token, share in self.shares[prefix].items()]
        return httpx.Response(200, json={"completion_probabilities": [{"top_probs": probs}]})


def exchange(
    content: str,
    *,
    corrected: Any = (),
    past: Any = (),
    version: int | None = None,
    values: tuple[str, ...] = VALUES,
    said_at: tuple[datetime, ...] = (),
    learned_at: datetime | None = None,
    unsure_below: float = 0.0,
    **body: Any,
) -> Exchange:
    closed = ClosedAnswers(values, "", tuple(corrected), Remembered(list(corrected)), past, said_at=said_at)
    upstream = Upstream("http://llama.example/v1", "m", server=1)
    served = Served(version, "v1" if version else "base", upstream, learned_at=learned_at)
    agent = KnownAgent(
        1, "route", datetime.now(UTC), "", 64, (served,), closed=closed, larger=LARGER, unsure_below=unsure_below
    )
    sent = {"model": "route", "messages": [{"role": "user", "content": content}], **body}
    return Exchange(KEY, parse_request(ChatForm(sent), {}, KEY), Route(agent, served))


@pytest.fixture
def llama() -> LlamaDouble:
    return LlamaDouble({"": {"c": 0.7, "i": 0.3}, "ca": {"r": 0.2, "s": 0.8}, "cash": {" ": 0.1, "x": 0.9}})


async def answer(llama: LlamaDouble, *exchanges: Exchange) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(llama)) as client:
        chooser, turns = Chooser(client, Forms(client)), Turns()
        said = []
        for each in exchanges:
            said.append(await chooser.answer(turns, each))
            await chooser.settle()
        return said


def text(document: dict[str, Any]) -> str:
    return document["choices"][0]["message"]["content"]


def test_the_likeliest_answer_is_given_with_the_probability_of_each(llama: LlamaDouble):
    asked = exchange("Where is my money?", logprobs=True)
    (said,) = asyncio.run(answer(llama, asked))
    assert text(said) == "cash"
    shares = asked.choosing["shares"]
    assert shares == pytest.approx({"cash": 0.7 * 0.8 * 0.9, "identity": 0.3, "cards": 0.14, "cash back": 0.056})
    content = said["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["cash"]
    assert {entry["token"] for entry in content[0]["top_logprobs"]} == set(VALUES)
    assert said["usage"] == {"prompt_tokens": 19, "completion_tokens": 4, "total_tokens": 23}


def test_a_like_question_that_was_corrected_decides_at_once(llama: LlamaDouble):
    corrected = [("I lost my identity card", "identity")]
    said = asyncio.run(answer(llama, exchange("I lost my identity card again", corrected=corrected)))
    assert text(said[0]) == "identity"


def test_a_trained_version_follows_what_was_corrected_since_in_like_words(llama: LlamaDouble):
    """It is as sure of another answer as ever, and has learned the other corrections."""
    llama.shares[""] = {"c": 0.97, "i": 0.03}
    newest = ("Since Monday your letters reach me in Finnish, I never chose it", "identity")
    learned = [
        (f"{text} no longer works", "cards") for text in ("My card", "The chip", "Paying", "This", "Contactless")
    ]

    def asked(learned_at: datetime) -> Exchange:
        about = "Since Friday the letters reach me in Danish, I did not choose that"
        at = {"said_at": (NOON, *(NOON - timedelta(hours=1) for _ in learned)), "learned_at": learned_at}
        return exchange(about, corrected=[newest, *learned], version=7, **at)

    before, after = asked(NOON - timedelta(minutes=1)), asked(NOON + timedelta(minutes=1))
    said = asyncio.run(answer(llama, before, after))
    assert [text(one) for one in said] == ["identity", "cash"]


def test_who_is_unsure_asks_a_larger_model_to_choose_and_its_answer_counts_for_no_version(llama: LlamaDouble):
    llama.larger = "identity"
    asked = exchange("Where is my money?", unsure_below=0.6, version=7)
    (said,) = asyncio.run(answer(llama, asked))
    assert text(said) == "identity"
    assert llama.bodies[-1]["model"] == "big-model"
    assert llama.bodies[-1]["structured_outputs"] == {"choice": [*VALUES]}
    assert asked.choosing == {"among": 4, "form": "structured_outputs", "asked": "big", "share": 0.504}
    stored = asked.document()
    assert (stored["model_version_id"], stored["details"]["model_version"]) == (None, "big")


@pytest.mark.parametrize(("unsure_below", "larger"), [(0.5, "identity"), (0.6, ""), (0.6, "Your identity, I think.")])
def test_who_is_sure_enough_or_is_told_nothing_of_the_set_answers_alone(
    llama: LlamaDouble, unsure_below: float, larger: str
):
    llama.larger = larger
    asked = exchange("Where is my money?", unsure_below=unsure_below, version=7)
    (said,) = asyncio.run(answer(llama, asked))
    assert text(said) == "cash"
    assert asked.document()["model_version_id"] == 7
    assert asked.choosing["shares"]["cash"] == 0.504


def test_of_the_base_model_the_mean_over_past_questions_is_taken_off_and_of_an_adapter_it_is_not(llama: LlamaDouble):
    """All questions are alike to the double, so that less their mean nothing is left but the order."""
    first, second = (exchange("Money?", past=PAST) for _ in range(2))
    adapter = exchange("Money?", past=PAST, version=7)
    asyncio.run(answer(llama, first, second, adapter))
    assert [one.choosing["calibrated"] for one in (first, second, adapter)] == [False, True, False]
    assert second.choosing["shares"]["identity"] == pytest.approx(0.5)
    assert adapter.choosing["shares"] == first.choosing["shares"]


def test_options_are_lifted_among_the_likeliest_and_an_end_is_what_is_left(llama: LlamaDouble):
    asyncio.run(answer(llama, exchange("Money?")))
    assert llama.bodies[0]["logit_bias"] == [[ord("c"), 30.0], [ord("i"), 30.0]]
    assert llama.bodies[-1]["logit_bias"] == []
    assert all(body["n_predict"] == 1 for body in llama.bodies)


def test_a_server_that_breaks_is_told_of(llama: LlamaDouble):
    llama.broken = True
    with pytest.raises(Refusal, match="out of order"):
        asyncio.run(answer(llama, exchange("Money?")))


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ({}, True),
        ({"n": 2}, False),
        ({"response_format": {"type": "json_object"}}, False),
        ({"tools": [{"type": "function", "function": {"name": "look"}}]}, False),
        ({"stream": True}, True),
    ],
)
def test_who_asks_for_a_form_or_for_several_gets_them(body: dict[str, Any], is_one: bool):
    assert is_chosen(exchange("x", **body)) is is_one


def test_answers_that_all_begin_alike_are_calibrated_where_they_part():
    llama = LlamaDouble({"card ": {"a": 0.9, "b": 0.1}})
    first, second = (exchange("Which?", past=PAST, values=("card a", "card b")) for _ in range(2))
    said = asyncio.run(answer(llama, first, second))
    assert text(said[0]) == "card a"
    assert second.choosing["calibrated"]
    assert second.choosing["shares"] == pytest.approx({"card a": 0.5, "card b": 0.5})


def test_a_chosen_answer_is_told_of_among_however_many(llama: LlamaDouble):
    many = tuple(f"{chr(65 + number)}x" for number in range(26))
    llama.shares = {"": {value[0]: 1 / 26 for value in many}}
    asked = exchange("Which?", corrected=[("Which?", "Zx")], values=many, logprobs=True)
    (said,) = asyncio.run(answer(llama, asked))
    assert text(said) == "Zx"
    assert len(asked.choosing["shares"]) == 20
    assert said["choices"][0]["logprobs"]["content"][0]["token"] == "Zx"


def test_an_end_that_the_server_gives_without_probabilities_is_an_end(llama: LlamaDouble):
    llama.shares = {"": {"c": 0.9, "i": 0.1}, "ca": {"s": 1.0, "r": 0.0}, "cash": {}}
    assert text(asyncio.run(answer(llama, exchange("Money?")))[0]) == "cash"


TEXTS = [(f"my card number {number} is lost", "cards") for number in range(8)]
TEXTS += [(f"passport page {number} is torn", "identity") for number in range(8)]
JOB: dict[str, Any] = {
    "corrected": TEXTS,
    "past": tuple([{"role": "user", "content": text}] for text, _ in TEXTS),
    "values": ("cards", "identity"),
}


class MisledDouble(LlamaDouble):
    """Says the contrary of what is right, and is sure of it."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        content = json.loads(request.content).get("prompt") or []
        asked = "".join(map(chr, content)) if request.url.path == "/completion" else ""
        about_cards = "card" in asked.partition(">")[0]
        self.shares = {"": {"c": 0.02, "i": 0.98} if about_cards else {"c": 0.98, "i": 0.02}}
        return super().__call__(request)


def test_a_model_that_does_not_know_the_job_counts_less_than_what_was_corrected():
    asked = [exchange("my card was stolen", **JOB) for _ in range(3)]
    said = asyncio.run(answer(MisledDouble({}), *asked))
    assert [one.choosing["trust"] for one in asked] == [1.0, 1.0, 0.15]
    assert text(said[0]) == "identity"
    assert text(said[2]) == "cards"


def test_a_model_that_knows_the_job_keeps_its_weight():
    class Right(MisledDouble):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            answered = super().__call__(request)
            if request.url.path != "/completion":
                return answered
            [listed] = answered.json()["completion_probabilities"]
            shares = [entry["prob"] for entry in listed["top_probs"]][::-1]
            turned = [{**entry, "prob": share} for entry, share in zip(listed["top_probs"], shares, strict=True)]
            return httpx.Response(200, json={"completion_probabilities": [{"top_probs": turned}]})

    asked = [exchange("Money?", **JOB) for _ in range(3)]
    asyncio.run(answer(Right({}), *asked))
    assert asked[-1].choosing["trust"] == 1.0


class Holding(httpx.AsyncBaseTransport):
    """Never answers a past question."""

    def __init__(self, llama: LlamaDouble) -> None:
        self.llama = llama

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if b"past" in request.content:
            await asyncio.Event().wait()
        return self.llama(request)


async def stopped(llama: LlamaDouble, *exchanges: Exchange) -> set[asyncio.Task[Any]]:
    """The tasks that go on after the last answer; none of them does once the chooser has stopped."""
    async with httpx.AsyncClient(transport=Holding(llama)) as client:
        chooser, turns = Chooser(client, Forms(client)), Turns()
        for each in exchanges:
            await chooser.answer(turns, each)
        learning = asyncio.all_tasks() - {asyncio.current_task()}
        await chooser.stop()
        assert {task.cancelled() for task in learning} == {True}
        return learning


def test_what_is_being_learned_ends_with_the_gateway(llama: LlamaDouble):
    assert len(asyncio.run(stopped(llama, exchange("Money?", past=PAST)))) == 1


def test_what_is_being_learned_is_not_lost_where_more_is_kept_than_there_is_room_for(llama: LlamaDouble, monkeypatch):
    monkeypatch.setattr(choosing, "MOST_KEPT", 0)
    sets = [exchange("Money?", past=PAST, values=(*VALUES, more)) for more in ("cashew", "cards2", "caps")]
    llama.shares = {"": {"c": 0.7, "i": 0.3}, "ca": {"s": 0.8, "r": 0.1, "p": 0.1}, "cash": {"x": 1.0}}
    llama.shares |= {"cards": {"x": 1.0}}
    assert len(asyncio.run(stopped(llama, *sets))) == 3


@pytest.mark.django_db(transaction=True)
def test_no_task_is_left_when_the_gateway_has_stopped(data_dir):
    async def live() -> set[Any]:
        async with application.router.lifespan_context(application):
            gateway: Gateway = application.state.gateway
            gateway.chooser._begin(("never",), asyncio.sleep(600))
            gateway.table._next_reading()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(live()) == set()
