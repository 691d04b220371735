"""Chooses an answer of a closed set, for agents that have one.

A llama.cpp process of ours tells how likely each answer is to go on from the question (``/completion`` with one token,
biased so that all options are among those that it lists). What the base model thinks of an answer whatever is asked, its
mean over past questions, is taken off (Zhao et al., 2021, "Calibrate before use"), and what was corrected of like questions
comes on top (``Remembered``): a correction counts from the next answer on. An adapter has learned how frequent each answer
is, so nothing is taken off, and what was corrected since counts more. Other servers are given the set (``forms.py``); so is
the model of a larger agent where this one is unsure.
"""

import asyncio
import logging
import math
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from rl.base.background import end_all
from rl.base.messages import last_question
from rl.base.template_settings import template_settings
from rl.collect.feedback.kept_answers import ClosedAnswers
from rl.data_formatter.answer_tree import END, AnswerTree, Parting, Scores, choose_option, fit_trust
from rl.serving.gateway.chat_request import with_system_prompt
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.forms import MOST_KEPT, Forms, Key, keep, names_no_form, server_of
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import Route, Served
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import Piece, call

MOST_MEANT: Final = 8
"""Partings of which the mean is taken off, the first ones."""
FEWEST_MEANT: Final = 4
"""Past questions that tell a mean."""
MORE_KNOWN: Final = 1.2
"""Times as many accepted answers after which it is asked anew how much the model's scores count."""
SHOWN: Final = 20
"""Answers whose probabilities are told, the likeliest."""
_LIFT: Final = 30.0
"""Brings every option among the likeliest tokens; the same for each, so that it changes nothing between them."""
_FLOOR: Final = math.log(1e-12)
log = logging.getLogger(__name__)


@dataclass(slots=True)
class LikeliestAnswer:
    """The answer, and how probable each is."""

    answer: str
    shares: dict[str, float]
    """The likeliest first. Answers that begin alike and were left behind share evenly what they have together."""


@dataclass(slots=True)
class Chooser:
    """Chooses for one process; keeps the tokens of answers and the means of their scores, by server and set."""

    client: httpx.AsyncClient
    forms: Forms
    _trees: dict[Key, AnswerTree] = field(default_factory=dict)
    _means: dict[Key, dict[tuple[int, ...], Scores]] = field(default_factory=dict)
    _past: dict[Key, list[tuple[str, Scores]]] = field(default_factory=dict)
    """Past questions with their scores where the answers part first."""
    _trusts: dict[Key, tuple[int, float]] = field(default_factory=dict)
    """How many accepted answers it was fitted to, and the trust."""
    _learning: set[Key] = field(default_factory=set)
    _tasks: dict[Key, asyncio.Task[None]] = field(default_factory=dict)
    """What goes on beside the requests."""

    def chooses(self, exchange: Exchange) -> bool:
        """Whether it is to be one of a closed set, and its server can be brought to that."""
        return is_chosen(exchange) and (exchange.route.served.is_ours or bool(self.forms.choices_left(exchange)))

    async def answer(self, turns: Turns, exchange: Exchange) -> Piece:
        """A completion; the exchange says how it was chosen. Raises Refusal."""
        route, closed = exchange.route, exchange.route.agent.closed
        assert closed is not None  # noqa: S101  whoever has none does not get here
        if not exchange.route.served.is_ours:
            return await self.forms.choose(turns, exchange)
        async with turns.of(exchange):
            ids, tree = await self._read(route, closed, exchange.request.for_upstream(route))
            means = self._known_means(route, closed, tree)
            support = closed.support(exchange.request.messages, route.served.learned_at)
            trust = self._known_trust(route, closed, tree, means)
            choice = await self._choose(route, tree, ids, means, support, trust)
        share = choice.shares[choice.answer]
        if route.agent.larger and share < route.agent.unsure_below:
            asked = await self._ask_larger(turns, exchange, route.agent.larger, round(share, 4))
            if asked is not None:
                return asked
        exchange.choosing = {
            "among": len(closed.values),
            "share": round(share, 4),
            "shares": {answer: round(share, 4) for answer, share in choice.shares.items()},
            "remembered": len(closed.remembered),
            "calibrated": bool(means),
            "trust": trust,
        }
        return completion_of(choice, exchange, len(ids), len(tree.tokens[choice.answer]))

    async def _ask_larger(self, turns: Turns, exchange: Exchange, larger: Served, share: float) -> Piece | None:
        """None where it does not answer, or nothing of the set. ``share``: of the own model's best answer."""
        asked = replace(exchange, route=replace(exchange.route, served=larger))
        try:
            document = await self.forms.choose(turns, asked)
        except Refusal as error:
            log.warning("%s is unsure, and %s does not answer: %s", exchange.route.model, larger.version, error.message)
            return None
        if not asked.choosing:
            return None
        exchange.route, exchange.choosing = asked.route, {**asked.choosing, "asked": larger.version, "share": share}
        return document

    async def _read(self, route: Route, closed: ClosedAnswers, body: Mapping[str, Any]) -> tuple[list[int], AnswerTree]:
        """The tokens of the question, as the model's template writes it, and those of the answers behind it."""
        text = str((await self._call(route, "apply-template", body))["prompt"])
        ids = await self._tokens(route, text)
        key = (server_of(route), closed.values)
        if key not in self._trees:
            behind = {value: await self._behind(route, text, ids, value) for value in closed.values}
            self._trees = keep(self._trees, key, AnswerTree(behind))
        return ids, self._trees[key]

    async def _behind(self, route: Route, text: str, ids: Sequence[int], value: str) -> tuple[int, ...]:
        whole = await self._tokens(route, text + value)
        return tuple(whole[len(ids) :] if whole[: len(ids)] == ids else await self._tokens(route, value))

    async def _tokens(self, route: Route, text: str) -> list[int]:
        body = {"content": text, "add_special": True, "parse_special": True}
        tokens: list[int] = (await self._call(route, "tokenize", body))["tokens"]
        return tokens

    async def _choose(
        self,
        route: Route,
        tree: AnswerTree,
        ids: Sequence[int],
        means: Mapping[tuple[int, ...], Scores],
        support: Mapping[str, float],
        trust: float,
    ) -> LikeliestAnswer:
        """From parting to parting."""
        answers, left = tuple(tree.tokens), 1.0
        shares: dict[str, float] = {}
        while len(answers) > 1:
            parting = tree.parting(answers)
            scores = await self._scores(route, ids, parting)
            options = choose_option(parting, scores, means.get(parting.prefix, {}), support, trust)
            best = next(iter(options))
            for option, share in options.items():
                if option != best:
                    of_option = parting.options[option]
                    shares |= dict.fromkeys(of_option, left * share / len(of_option))
            answers, left = parting.options[best], left * options[best]
        likeliest = sorted(shares.items(), key=lambda item: -item[1])[: SHOWN - 1]
        return LikeliestAnswer(answers[0], dict(sorted([*likeliest, (answers[0], left)], key=lambda item: -item[1])))

    async def _scores(self, route: Route, ids: Sequence[int], parting: Parting) -> Scores:
        options = [option for option in parting.options if option != END]
        ends = END in parting.options
        body = {
            "prompt": [*ids, *parting.prefix],
            "n_predict": 1,
            "temperature": 1.0,
            "samplers": ["temperature"],
            "n_probs": len(options) + (200 if ends else 0),
            "post_sampling_probs": True,
            "logit_bias": [] if ends else [[option, _LIFT] for option in options],
        }
        listed = (await self._call(route, "completion", body)).get("completion_probabilities") or [{"top_probs": []}]
        shares = {entry["id"]: entry["prob"] for entry in listed[0]["top_probs"]}
        scores = {option: math.log(share) if (share := shares.get(option, 0.0)) else _FLOOR for option in options}
        if ends:
            scores[END] = math.log(max(1 - sum(shares.get(option, 0.0) for option in options), 1e-12))
        return scores

    async def settle(self) -> None:
        """Waits until everything that is being learned of answers is known."""
        await asyncio.gather(*self._tasks.values())

    async def stop(self) -> None:
        """Leaves what is being learned."""
        await end_all(self._tasks.values())

    def _begin(self, name: Key, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(work)
        self._tasks[name].add_done_callback(lambda _: self._tasks.pop(name))

    # --- what answers have whatever is asked ---------------------------------------------------------------------------

    def _known_means(self, route: Route, closed: ClosedAnswers, tree: AnswerTree) -> Mapping[tuple[int, ...], Scores]:
        """Empty for an adapter, and until they have been learned, which the first question starts; once more when there are
        twice as many past questions."""
        if route.served.learned_at is not None or len(closed.prompts) < FEWEST_MEANT:
            return {}
        key = (server_of(route), closed.values)
        stage = (*key, len(closed.prompts).bit_length())
        if stage not in self._learning and stage not in self._tasks:
            if len(self._learning) > MOST_KEPT:
                self._learning, self._means, self._past, self._trusts = set(), {}, {}, {}
            self._learning.add(stage)
            self._begin(stage, self._learn_means(key, route, closed, tree))
        return self._means.get(key, {})

    async def _learn_means(self, key: Key, route: Route, closed: ClosedAnswers, tree: AnswerTree) -> None:
        partings = [parting for parting, _ in zip(tree.partings(), range(MOST_MEANT), strict=False)]
        scores: dict[tuple[int, ...], list[Scores]] = {parting.prefix: [] for parting in partings}
        past: list[tuple[str, Scores]] = []
        for prompt in closed.prompts:
            try:
                texts = [{"role": message["role"], "content": message["content"]} for message in prompt]
                # as the question is asked
                body = {
                    "messages": with_system_prompt(texts, prompt, route),
                    "chat_template_kwargs": template_settings(False),
                }
                ids = (await self._read(route, closed, body))[0]
                of_prompt = {parting.prefix: await self._scores(route, ids, parting) for parting in partings}
            except Refusal as error:  # too long a question, say
                log.warning("%s: a past question tells nothing of its answers: %s", route.model, error.message)
                continue
            past.append((last_question(prompt), of_prompt[partings[0].prefix]))
            for prefix, of_parting in of_prompt.items():
                scores[prefix].append(of_parting)
        enough = {prefix: of_prefix for prefix, of_prefix in scores.items() if len(of_prefix) >= FEWEST_MEANT}
        self._means[key] = {prefix: _mean(of_prefix) for prefix, of_prefix in enough.items()}
        self._past[key] = past
        self._trusts.pop(key, None)

    def _known_trust(
        self, route: Route, closed: ClosedAnswers, tree: AnswerTree, means: Mapping[tuple[int, ...], Scores]
    ) -> float:
        """1 until it has been fitted, which is done again when a fifth more is accepted."""
        key = (server_of(route), closed.values)
        if not means or key not in self._past:
            return 1.0
        fitted, trust = self._trusts.get(key, (0, 1.0))
        known = len(closed.answered)
        is_old = key not in self._trusts or not fitted <= known <= MORE_KNOWN * fitted
        if is_old and key not in self._tasks:
            self._begin(key, self._fit_trust(key, closed, next(tree.partings()), means))
        return trust

    async def _fit_trust(
        self, key: Key, closed: ClosedAnswers, parting: Parting, means: Mapping[tuple[int, ...], Scores]
    ) -> None:
        """Beside the loop: comparing all past questions with all that was corrected takes some ten milliseconds."""
        answered, past, of_root = dict(reversed(closed.answered)), self._past[key], means.get(parting.prefix, {})

        def fit() -> float:
            support = closed.remembered.support
            known = [(scores, support(text, of_others=True), answered.get(text, "")) for text, scores in past]
            return fit_trust(parting, known, of_root)

        trust = await asyncio.to_thread(fit)
        self._trusts[key] = len(closed.answered), trust

    async def _call(self, route: Route, path: str, body: Mapping[str, Any]) -> Piece:
        return await call(self.client, route.served, f"{route.upstream.base_url.removesuffix('/v1')}/{path}", body)


def is_chosen(exchange: Exchange) -> bool:
    """Whether it is to be one of a closed set; requests that name a form themselves, or want several, get what they ask."""
    agent = exchange.route.agent
    if agent.closed is None or exchange.request.document.get("n") not in (None, 1) or not names_no_form(exchange):
        return False
    return agent.closed.answers(exchange.request.messages, agent.system_prompt)


def completion_of(choice: LikeliestAnswer, exchange: Exchange, tokens_in: int, tokens_out: int) -> Piece:
    """In OpenAI's shape; where log probabilities are asked for, the whole answer counts as one token."""
    document: Piece = {"index": 0, "message": {"role": "assistant", "content": choice.answer}, "finish_reason": "stop"}
    if exchange.request.document.get("logprobs"):
        every = [
            {"token": answer, "logprob": math.log(max(share, 1e-12)), "bytes": list(answer.encode())}
            for answer, share in choice.shares.items()
        ]
        own = next(entry for entry in every if entry["token"] == choice.answer)
        document["logprobs"] = {"content": [{**own, "top_logprobs": every}], "refusal": None}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return {"object": "chat.completion", "created": int(time.time()), "choices": [document], "usage": usage}


def _mean(scores: Sequence[Scores]) -> Scores:
    return {option: sum(of_question[option] for of_question in scores) / len(scores) for option in scores[0]}
