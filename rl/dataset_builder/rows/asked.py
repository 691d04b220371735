"""A stored answer that chose a widget, as the agent is asked for it: which variant of the widget, among those there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rl.base.records import JudgedAnswer, Message
from rl.data_formatter.wording.contract import Ask, Wording
from rl.dataset_builder.read.groups import Source
from rl.dataset_builder.wording import wording_of
from rl.models import Agent


class AsAsked:
    """An agent that learns from whole answers gets every answer as it is."""

    def __init__(self, agent: Agent, source: Source) -> None:
        self.changes = agent.pair_type != Agent.PairType.PREFERENCE
        """Whether it needs to know what an answer chose."""
        self._wording: Wording | None = wording_of(agent) if self.changes else None
        self._fixtures: Mapping[str, tuple[str, ...]] = source.fixtures() if self.changes else {}

    def __call__(self, answer: JudgedAnswer) -> JudgedAnswer:
        """The key of the question stays: what is said of one question is not independent."""
        widget = answer.widget
        if self._wording is None or widget is None:
            return answer
        names = {*self._fixtures.get(widget.scenario, ()), widget.fixture}
        ask = Ask(widget, fixtures=dict.fromkeys(names, ""), data=[widget.data])
        prompt = self._wording.prompts.ask_for_fixture(ask)
        messages = [Message(role="user", content=prompt)] if isinstance(prompt, str) else prompt
        text = self._wording.answers.write_fixture(widget.fixture, ask)
        return replace(answer, prompt=tuple(messages), response=text)
