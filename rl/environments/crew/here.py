"""In this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rl.environments.contract import Action
from rl.environments.crew.contract import Crew, Move, Opening
from rl.environments.crew.stage import Stage
from rl.environments.settings import EnvironmentSettings


class Here(Crew):
    """In this process, one environment after the other."""

    def __init__(self, settings: EnvironmentSettings, alive: Callable[[], None]) -> None:
        super().__init__(alive)
        self._settings = settings
        self._stage = Stage(settings)

    def close(self) -> None:
        self._stage.close()

    def _begin(self, tasks: Sequence[Mapping[str, Any]]) -> list[Opening]:
        tasks_by_index = dict(enumerate(tasks))
        return [Opening.of_document(document) for _, document in self._run_in_turn(self._stage.begin, tasks_by_index)]

    def _act(self, actions: Mapping[int, Action]) -> dict[int, Move]:
        documents = {index: asdict(action) for index, action in actions.items()}
        return {index: Move.of_document(document) for index, document in self._run_in_turn(self._stage.act, documents)}

    def _run_in_turn(
        self, run: Callable[[int, Mapping[str, Any]], str], documents: Mapping[int, Mapping[str, Any]]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Copies go in: what an environment does to its task is not done to the next episode's."""
        for index, document in documents.items():
            self._beat()
            yield index, json.loads(run(index, json.loads(json.dumps(document))))
