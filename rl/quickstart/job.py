"""The job of the demo: the base model sorts messages, colleagues correct it, and what is served then sorts others.

Every message is asked through the gateway, as an application would, so what is counted is what people get. The answers are
kept as traces of a session for each time; what an earlier quickstart asked is not asked again."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import httpx

from rl.base.errors import RatchetError
from rl.data_formatter.answer_kinds import normalise
from rl.demo.everyday import DemoOpinion
from rl.demo.load import SOURCE, make_feedback
from rl.demo.mailroom import TEAMS, MailroomMessage, MailroomParts, draw_parts, name_teams
from rl.models import BASE, Agent, Feedback, Trace
from rl.serving.dialects.chat import CHAT
from rl.serving.gateway import pending
from rl.serving.gateway.app import application
from rl.serving.gateway.chat_request import SESSION_HEADER
from rl.serving.gateway.gateway import CALLER
from rl.serving.gateway.routing import KnownKey

AT_ONCE: Final = 4
"""Messages that are asked at the same time."""
LEARNT_FROM: Final = 2
"""Messages that are asked one by one: the first has the gateway learn how likely each answer is whatever is asked, the
second how much that counts beside the corrections. A site that runs has done so long ago."""
NO_TEAM: Final = "no team"
Messages = Sequence[MailroomMessage]


@dataclass(frozen=True, slots=True)
class Sorted:
    """The messages that nobody corrected, and what was answered each time, in their order."""

    messages: Messages
    before: list[str]
    """By the base model, before anything was corrected: it says what it likes."""
    after: list[str]
    """By what is in use after the training."""
    answered_by: str

    @property
    def questions(self) -> list[dict[str, str]]:
        rows = zip(self.messages, self.before, self.after, strict=True)
        return [{"prompt": of.text, "before": before, "after": after} for of, before, after in rows]

    @property
    def right(self) -> dict[str, int]:
        return {"before": self._count(self.before), "after": self._count(self.after), "of": len(self.messages)}

    def _count(self, answers: Sequence[str]) -> int:
        return sum(_team_of(answer) in of.teams for of, answer in zip(self.messages, answers, strict=True))

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """Right team to the teams that ``after`` names, with how often. A message that two could take counts as that of the
        one that was named."""
        counts = {team: Counter[str]() for team in TEAMS}
        for of, answer in zip(self.messages, self.after, strict=True):
            named = _team_of(answer)
            counts[named if named in of.teams else of.team][named] += 1
        return {team: dict(of_team) for team, of_team in counts.items()}


def _team_of(answer: str) -> str:
    return name if (name := normalise(answer)) in TEAMS else NO_TEAM


@dataclass(frozen=True, slots=True)
class Job:
    agent: Agent
    user_id: int
    """Who asks."""
    seed: int

    @property
    def parts(self) -> MailroomParts:
        return draw_parts(self.seed)

    def ask_before(self) -> list[str]:
        """The answers of the base model to the messages that nobody corrects, and to those that are corrected next."""
        corrected, unseen, _ = self.parts
        return self._ask([*unseen, *corrected], "before", BASE)

    def correct(self) -> int:
        """Colleagues say of each answer whether it is right, and which is; how many had to be corrected. Only once."""
        messages, own = self.parts.corrected, Feedback.objects.filter(agent=self.agent, source=SOURCE)
        if not own.exists():
            answers = _answers(self.agent, "before")
            traces = Trace.objects.in_bulk(pk for pk, _ in answers.values())
            asked = [traces[answers[of.text][0]] for of in messages]
            named = zip(asked, name_teams(messages, self.seed), strict=True)
            rows = []
            for trace, (rater, team) in named:
                is_right = normalise(trace.response) == team
                opinion = (
                    DemoOpinion("thumb", rater, 0, up=True) if is_right else DemoOpinion("edit", rater, 0, text=team)
                )
                rows.append(make_feedback(self.agent, [trace], opinion))
            Feedback.objects.bulk_create(rows)
        return own.filter(kind=Feedback.Kind.CORRECTION).count()

    def ask_after(self) -> Sorted:
        unseen = self.parts.unseen
        before, after = self._ask(unseen, "before", BASE), self._ask(unseen, "after")
        traces = Trace.objects.filter(agent=self.agent, session_id=_session("after")).select_related("model_version")
        trace = traces.first()
        assert trace is not None  # noqa: S101  it has just been asked
        version = trace.model_version
        return Sorted(unseen, before, after, f"{self.agent.name} {version.name}" if version else "the base model")

    def _ask(self, messages: Messages, time: str, version: str = "") -> list[str]:
        """Raises RatchetError where no answer comes."""
        known = _answers(self.agent, time)
        if missing := [of.text for of in messages if of.text not in known]:
            model = f"{self.agent.name}@{version}" if version else self.agent.name
            asked = asyncio.run(
                _ask_gateway(KnownKey.of_person(self.user_id, self.agent.pk), model, missing, _session(time))
            )
            pending.deliver_these(asked)
            Trace.objects.filter(pk__in=asked).update(source=SOURCE)
            known = _answers(self.agent, time)
        return [known[of.text][1] for of in messages]


def _session(time: str) -> str:
    return f"quickstart-{time}"


def _answers(agent: Agent, time: str) -> Mapping[str, tuple[UUID, str]]:
    """Message to the trace and the answer."""
    traces = Trace.objects.filter(agent=agent, session_id=_session(time)).order_by("created_at")
    return {trace.question: (trace.pk, trace.response) for trace in traces}


async def _ask_gateway(caller: KnownKey, model: str, messages: Sequence[str], session: str) -> list[UUID]:
    """The gateway in this process; the traces that it writes. Raises RatchetError."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def as_caller(scope: Any, receive: Any, send: Any) -> None:
        await application({**scope, CALLER: caller}, receive, send)

    async def ask(message: str) -> UUID:
        async with turns:
            body = {"model": model, "messages": [{"role": "user", "content": message}], "temperature": 0}
            response = await client.post(CHAT.path, json=body, headers={SESSION_HEADER: session})
        if not response.is_success:
            raise RatchetError(f"{model} does not answer: {response.json()['error']['message']}")
        return UUID(response.json()["id"])

    transport = httpx.ASGITransport(app=as_caller)
    async with (
        application.router.lifespan_context(application),
        httpx.AsyncClient(transport=transport, base_url="http://gateway") as client,
    ):
        first = []
        for message in messages[:LEARNT_FROM]:
            first.append(await ask(message))
            await application.state.gateway.chooser.settle()
        return [*first, *await asyncio.gather(*map(ask, messages[LEARNT_FROM:]))]
