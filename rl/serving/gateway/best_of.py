"""Several answers to one request: all of them, where the client asks for as many, or the one that the agent's judge picks.

Each answer is a request of its own, all at the same time. llama.cpp could give several to one request, but such a request
waits until so many slots are free at once, which never happens while others ask for one answer each; and its usage counts
one.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rl.base.records import Message
from rl.data_formatter.degeneration import rank
from rl.serving.gateway.answer import Answer
from rl.serving.gateway.exchange import Exchange, columns_of
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownJudge
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import Piece
from rl.serving.judge_process import address_of

JUDGE_SECONDS: Final = 5.0
"""How long an answer waits for its judge, its turn included."""
TEMPERATURE: Final = 0.8
"""Where the request names none: answers that are alike are not worth choosing from. The default of llama.cpp and Ollama."""
log = logging.getLogger(__name__)


class Unjudged(Exception):
    """The judge cannot say; the text is the reason."""


async def rate(judge: KnownJudge, prompt: Sequence[Message], answers: Sequence[str]) -> list[float]:
    """A number for each answer, the larger the better. Raises Unjudged."""
    request = {"head": judge.head, "prompt": list(prompt), "answers": list(answers)}
    try:
        async with asyncio.timeout(JUDGE_SECONDS):
            document = json.loads(await _ask(judge, json.dumps(request).encode()))
    except TimeoutError:
        raise Unjudged(f"the judge did not answer within {JUDGE_SECONDS:g} seconds") from None
    except (OSError, ValueError) as error:
        raise Unjudged(f"the judge does not run: {type(error).__name__}") from None
    if problem := document.get("error"):
        raise Unjudged(f"the judge broke: {problem}"[:500])
    ratings: list[float] = document["ratings"]
    return ratings


async def _ask(judge: KnownJudge, request: bytes) -> Any:
    with address_of(judge.socket) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        writer.write(request)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


@dataclass(slots=True)
class DrawnCompletion:
    document: Piece
    """The completion as the server sent it."""
    answer: Answer

    @property
    def text(self) -> str:
        """As the trace has it, with its tool calls."""
        return str(columns_of(self.answer)["response"])


def asks_for_several(exchange: Exchange) -> bool:
    """Whether several answers are to be asked for; where the deployment wants that and it would be for nothing, the trace
    says why."""
    route, body = exchange.route, exchange.request.document
    if route.best_of == 1:
        return False
    reason = route.agent.judge_problem
    if exchange.is_blind:
        reason = "it was asked for blind, and streams as the other answer does"
    if body.get("n") not in (None, 1):
        reason = "the request asks for several answers itself"
    elif body.get("temperature") == 0:
        reason = "at temperature 0 all answers are the same"
    if reason:
        exchange.judging = {"of": route.best_of, "asked": 1, "unjudged": reason}
    return not reason


def wants_several(exchange: Exchange) -> bool:
    """Whether the client asks for several answers of a server of ours."""
    return exchange.route.served.is_ours and exchange.request.document.get("n") not in (None, 1)


async def answer_all(forms: Forms, turns: Turns, exchange: Exchange) -> Piece:
    """A completion with as many choices as the client asks for, and the usage of all. Raises Refusal where one fails."""
    number = exchange.request.document["n"]
    draws, refusals = await _ask_all(forms, turns, exchange, number)
    if refusals:
        raise refusals[0]
    choices = [{**draw.document["choices"][0], "index": index} for index, draw in enumerate(draws)]
    return _join(exchange, draws) | {"choices": choices}


async def answer_best(forms: Forms, turns: Turns, exchange: Exchange) -> Piece:
    """The completion that the judge prefers among those that are not broken, with the usage of all; the exchange has it as
    its answer, and the others as further choices. Raises Refusal where there is not one answer."""
    draws, refusals = await _ask_all(forms, turns, exchange, exchange.route.best_of)
    if not draws:
        raise refusals[0]
    began = time.monotonic()
    exchange.judging = {"of": exchange.route.best_of, "asked": exchange.route.best_of, "answered": len(draws)}
    judge = exchange.route.agent.judge
    assert judge is not None  # noqa: S101  whoever has none does not get here
    try:
        ratings = await rate(judge, exchange.request.prompt, [draw.text for draw in draws])
        order = rank([draw.text for draw in draws], ratings)
        draws = [draws[index] for index in order]
        exchange.judging |= {"ratings": [round(ratings[index], 4) for index in order], "label_model": judge.label_model}
    except Unjudged as error:
        log.warning("the first of %s answers of %s is given: %s", len(draws), exchange.route.model, error)
        exchange.judging["unjudged"] = str(error)
    exchange.judging["judge_ms"] = round((time.monotonic() - began) * 1000)
    return _join(exchange, draws)


def _join(exchange: Exchange, draws: Sequence[DrawnCompletion]) -> Piece:
    """The first completion, with the usage of all; the exchange has each as a choice."""
    usage = _total([draw.document.get("usage") for draw in draws])
    choices = {index: draw.answer.first for index, draw in enumerate(draws)}
    exchange.answer = Answer(choices, usage, first_at=time.monotonic())
    return {**draws[0].document, "usage": usage}


async def _ask_all(
    forms: Forms, turns: Turns, exchange: Exchange, number: int
) -> tuple[list[DrawnCompletion], list[Refusal]]:
    """Those that came, and why others did not; a client that goes away ends all of them."""
    draws = (_ask_one(forms, turns, exchange, index) for index in range(number))
    results = await asyncio.gather(*draws, return_exceptions=True)
    refusals = [result for result in results if isinstance(result, Refusal)]
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Refusal):
            raise result
    return [result for result in results if isinstance(result, DrawnCompletion)], refusals


async def _ask_one(forms: Forms, turns: Turns, exchange: Exchange, number: int) -> DrawnCompletion:
    body = exchange.request.document
    changed: dict[str, Any] = {"temperature": body.get("temperature", TEMPERATURE), "n": None}
    if "seed" in body:
        changed["seed"] = body["seed"] + number
    draw = replace(exchange, request=exchange.request.as_whole(**changed), answer=Answer())
    async with turns.of(draw):
        document = await forms.complete(draw)
    draw.answer.take(document)
    return DrawnCompletion(document, draw.answer)


def _total(usages: list[Any]) -> dict[str, Any]:
    """The prompt counts once, as in OpenAI's answers with several choices."""
    known = [usage for usage in usages if isinstance(usage, dict)]
    if not known:
        return {}
    count = sum(number for usage in known if isinstance(number := usage.get("completion_tokens"), int))
    prompt = known[0].get("prompt_tokens")
    total = (prompt if isinstance(prompt, int) else 0) + count
    return {**known[0], "completion_tokens": count, "total_tokens": total}


# --- as a stream -------------------------------------------------------------------------------------------------------


def as_events(exchange: Exchange, document: Piece) -> bytes:
    """A completion that is there whole, in the form of a stream: what it says in one chunk, then its end."""
    stream = exchange.request.dialect.stream(exchange.head())
    return b"".join(map(stream.write, _chunks(document))) + stream.end()


def _chunks(document: Piece) -> Iterator[Piece]:
    kept: Piece = {name: document[name] for name in ("created", "system_fingerprint") if name in document}
    head = {**kept, "object": "chat.completion.chunk"}
    for number, choice in enumerate(document["choices"]):
        # in a stream each tool call has its number
        message = choice.get("message")
        delta: Piece = {**message} if isinstance(message, dict) else {}
        if isinstance(calls := delta.get("tool_calls"), list):
            delta["tool_calls"] = [
                {"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)
            ]
        words = {"index": number, "delta": delta, "finish_reason": None}
        if choice.get("logprobs"):
            words["logprobs"] = choice["logprobs"]
        yield {**head, "choices": [words]}
        yield {**head, "choices": [{"index": number, "delta": {}, "finish_reason": choice.get("finish_reason")}]}
    yield {**head, "choices": [], "usage": document.get("usage")}
