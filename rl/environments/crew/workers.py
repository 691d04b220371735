"""In several processes."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rl.base.errors import UsageError
from rl.environments.contract import Action
from rl.environments.crew.contract import BEAT_SECONDS, Crew, Move, Opening
from rl.environments.crew.link import Link
from rl.environments.settings import EnvironmentSettings

SILENCE_SECONDS = 600.0
"""Time for one episode's step: longer than all tests of a task may take."""


class Workers(Crew):
    """In processes, which are dealt the episodes in turn. The workers run side by side; the episodes of one worker run one
    after the other."""

    def __init__(
        self, settings: EnvironmentSettings, workers: int, alive: Callable[[], None], silence_seconds: float
    ) -> None:
        super().__init__(alive)
        if workers < 1:
            raise UsageError(f"the number of workers must be 0 or more, not {workers}")
        self._settings, self._workers, self._silence_seconds = settings, workers, silence_seconds
        self._links: dict[int, Link] = {}

    def close(self) -> None:
        for link in self._links.values():
            link.begin_to_close()
        for link in self._links.values():
            link.close()
        self._links = {}

    def _begin(self, tasks: Sequence[Mapping[str, Any]]) -> list[Opening]:
        self._fill(min(self._workers, len(tasks)))
        answers = self._ask("begin", dict(enumerate(tasks)))
        return [Opening.of_document(answers[index]) for index in range(len(tasks))]

    def _fill(self, count: int) -> None:
        for link in self._links.values():
            link.look_after(self._silence_seconds)
        for number in range(count):
            if number not in self._links or self._links[number].broken:
                self._links[number] = Link(self._settings)

    def _act(self, actions: Mapping[int, Action]) -> dict[int, Move]:
        answers = self._ask("act", {index: asdict(action) for index, action in actions.items()})
        return {index: Move.of_document(document) for index, document in answers.items()}

    def _ask(self, verb: str, documents: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        for number, link in self._links.items():
            link.ask(
                verb, {index: document for index, document in documents.items() if index % self._workers == number}
            )
        answers: dict[int, dict[str, Any]] = {}
        while busy := [link for link in self._links.values() if link.owed]:
            self._exchange([link for link in busy if not link.broken])
            self._beat()
            for link in busy:
                link.look_after(self._silence_seconds)
                answers |= link.answers()
            if refused := [document["refused"] for document in answers.values() if "refused" in document]:
                raise UsageError(refused[0])
        return answers

    def _exchange(self, links: Sequence[Link]) -> None:
        """Waits until a pipe is ready, a moment at most."""
        with selectors.DefaultSelector() as selector:
            for link in links:
                selector.register(link.output, selectors.EVENT_READ, link.read)
                if link.has_more_to_write:
                    selector.register(link.input, selectors.EVENT_WRITE, link.write)
            for ready, _ in selector.select(BEAT_SECONDS) if links else ():
                if not ready.fileobj.closed:  # type: ignore[union-attr]
                    ready.data()
