"""Two answers to one question, drawn blind: which versions, and which of them stands on which side; a person's vote on them,
which is a comparison of their traces, and what came of both.

The ids of both answers are in the AnswerPair before anything is asked. Which versions give them waits in the session, on
this side of the connection; afterwards the traces have it."""

import secrets
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.collect.feedback.write import compare, correct, retract
from rl.models import Agent, AnswerPair, Deployment, Feedback, QuestionStart, Trace, UserTurns, version_name
from rl.models.queues import NOT_BLIND
from rl.models.traces import GATEWAY
from rl.serving.gateway.best_of import TEMPERATURE
from rl.serving.gateway.routing import Route
from rl.web.conversations import Drawn
from rl.web.pages.guards import find_trace

DRAWS: Final = "duels"
"""The key in the session: pair to the names of its versions, left and right."""
EXAMPLES: Final = 5
LOOKED_THROUGH: Final = 50
NEWEST: Final = 2000
"""Answers in which examples are looked for."""
LONGEST_EXAMPLE: Final = 100
KEPT: Final = 20
"""Draws of one person that wait for their questions, in as many open pages."""


def draw_pair(route: Route, session: Any, rater: str) -> AnswerPair:
    """``route``: to what answers such a question now. Raises UsageError where nothing does."""
    if route.served.upstream is None:
        raise UsageError(route.served.problem)
    # the base or the newest of the others, by chance; where nothing else is served, the same once more
    live = route.served
    others = [served for served in route.agent.deployed if served.upstream and served.version_id != live.version_id]
    base = [served for served in others if served.version_id is None][:1]
    newest = [served for served in others if served.version_id is not None][:1]
    names = [route.served.version, secrets.choice([*base, *newest] or [live]).version]
    secrets.SystemRandom().shuffle(names)
    pair = AnswerPair.objects.create(
        agent_id=route.agent.id, left_id=uuid4(), right_id=uuid4(), origin=AnswerPair.Origin.TALK, drawn_for=rater
    )
    waiting = dict(list(session.get(DRAWS, {}).items())[-KEPT + 1 :])
    session[DRAWS] = {**waiting, str(pair.pk): names}
    return pair


def drawn_side(agent: Agent, pair_id: UUID, side: str, session: Any) -> Drawn:
    """What is to answer. Raises UsageError."""
    require_known("side", side, {"a": "left", "b": "right"})
    names = session.get(DRAWS, {}).get(str(pair_id))
    pair = AnswerPair.objects.filter(pk=pair_id, agent=agent).first()
    if names is None or pair is None:
        raise UsageError("this pair was not drawn for you, or long ago; ask again")
    trace_id = pair.left_id if side == "a" else pair.right_id
    if Trace.objects.filter(pk=trace_id).exists():
        raise UsageError("this answer was given already; ask again")
    parameters = {"temperature": TEMPERATURE} if names[0] == names[1] else {}
    return Drawn(trace_id, names[0] if side == "a" else names[1], parameters)


def recent_questions(agent: Agent) -> list[str]:
    """The newest ones that begin a conversation, short enough for a button: those that people asked through the gateway,
    then others, such as imported ones; of the newest answers."""
    newest_keys = agent.traces.order_by("-created_at").values("pk")[:NEWEST]
    answers = agent.traces.filter(pk__in=newest_keys).order_by("-created_at")
    rows = answers.values_list(QuestionStart("prompt"), UserTurns("prompt"))
    newest = [*rows.filter(source=GATEWAY)[:LOOKED_THROUGH], *rows.exclude(source=GATEWAY)[:LOOKED_THROUGH]]
    firsts = (question.strip() for question, turns in newest if turns == 1)
    short = (question for question in firsts if 0 < len(question) <= LONGEST_EXAMPLE)
    return list(dict.fromkeys(short))[:EXAMPLES]


def own_pair(agent: Agent, name: str, rater: str) -> AnswerPair:
    """The one whose question he asked. Raises UsageError."""
    try:
        pair = AnswerPair.objects.filter(pk=UUID(name), agent=agent).first()
    except ValueError:
        raise UsageError("pair: not an id") from None
    if pair is None or pair.drawn_for != rater:
        raise UsageError(f"pair {name} was not drawn for you")
    return pair


SOURCE: Final = "try_page"
CHOICES: Final = {
    "a": Feedback.Choice.LEFT,
    "b": Feedback.Choice.RIGHT,
    "tie": Feedback.Choice.TIE,
    "both_bad": Feedback.Choice.BOTH_BAD,
}


def vote(pair: AnswerPair, choice: str, by: dict[str, Any]) -> None:
    """The newest one counts. ``by``: rater, source and user. Raises UsageError."""
    require_known("choice", choice, CHOICES)
    left, right = traces_of(pair)
    with transaction.atomic():
        AnswerPair.objects.select_for_update().get(pk=pair.pk)
        earlier = list(_comparisons(pair, by))
        standing = [event for event in earlier if event.is_current]
        if [event.choice for event in standing] == [CHOICES[choice]]:
            return
        _retract(standing, by)
        tags = [NOT_BLIND] if earlier else []
        compare(left, right, choice=CHOICES[choice], tags=tags, **by)


def take_back(pair: AnswerPair, by: dict[str, Any]) -> None:
    """With what he wrote in the place of an answer."""
    with transaction.atomic():
        _retract(_comparisons(pair, by).filter(is_current=True), by)
        _retract(_corrections(pair, by), by)


def edit(pair: AnswerPair, text: str, by: dict[str, Any]) -> None:
    """What the better answer should have been; the left one's place where neither is better. Raises UsageError."""
    with transaction.atomic():
        AnswerPair.objects.select_for_update().get(pk=pair.pk)
        standing = _comparisons(pair, by).filter(is_current=True).first()
        if standing is None:
            raise UsageError("say first which answer is better")
        trace = traces_of(pair)[standing.choice == Feedback.Choice.RIGHT]
        _retract(_corrections(pair, by).exclude(text=text), by)
        correct(trace, text=text, **by)


def traces_of(pair: AnswerPair) -> tuple[Trace, Trace]:
    """Left and right. Raises UsageError where one has not come."""
    return find_trace(pair.agent, pair.left_id), find_trace(pair.agent, pair.right_id)


def reveal(pair: AnswerPair) -> list[dict[str, Any]]:
    """Who gave the answers, A first."""
    champion = Deployment.champion(pair.agent)
    return [
        {
            "version": version_name(trace.model_version),
            "in_use": trace.model_version == champion,
            "words": len(trace.response.split()),
        }
        for trace in traces_of(pair)
    ]


def _own(by: dict[str, Any], kind: Feedback.Kind, **which: Any) -> QuerySet[Feedback]:
    return Feedback.objects.filter(rater=by["rater"], kind=kind, source=SOURCE, **which).select_related("trace")


def _comparisons(pair: AnswerPair, by: dict[str, Any]) -> QuerySet[Feedback]:
    return _own(by, Feedback.Kind.COMPARISON, trace=pair.left_id, other_trace=pair.right_id)


def _corrections(pair: AnswerPair, by: dict[str, Any]) -> QuerySet[Feedback]:
    return _own(by, Feedback.Kind.CORRECTION, trace__in=(pair.left_id, pair.right_id), is_current=True)


def _retract(events: Iterable[Feedback], by: dict[str, Any]) -> None:
    for event in events:
        retract(event, **by)
