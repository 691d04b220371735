"""A crew, and what runs its episodes. All goes through JSON, so that nothing depends on which process it is.

``main`` is a process that runs them: JSON lines on standard input, JSON lines on standard output. First ``{"path":
sys.path, "settings": {...}, "parent": pid}``; then ``["begin", [[index, task], ...]]`` and ``["act", [[index, action],
...]]``, which are answered by one line ``[index, {...}]`` for each episode, in their order: an Opening, a Move, or
``{"refused": why}``. Episodes run one after the other in the main thread, as they would without workers. It ends with
its standard input or its parent, and takes along what its tools have started."""

import atexit
import json
import logging
import math
import os
import signal
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, NoReturn, Self

from rl.base.errors import RatchetError, UsageError
from rl.base.records import Message, ToolCall
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, ToolRequest
from rl.environments.settings import EnvironmentSettings

BEAT_SECONDS = 0.5
"""Between two signs of life."""


@dataclass(frozen=True, slots=True)
class Opening:
    messages: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Their schemas."""
    broken: str = ""
    """Why the episode could not begin, one sentence; then it is over."""

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Back from ``asdict`` and JSON, or only ``broken``."""
        return cls(tuple(document.get("messages", ())), tuple(document.get("tools", ())), document["broken"])


@dataclass(frozen=True, slots=True)
class Move:
    observation: str = ""
    done: bool = True
    calls: tuple[ToolCall, ...] = ()
    """Made in this turn."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON, of the step."""
    reward: float | None = None
    """The reward of the whole episode when it is done; None while it goes on, and where the world broke."""
    observations: tuple[str, ...] = ()
    """As a Step has them."""
    broken: str = ""
    """Why the world, not the agent, broke, one sentence; then the episode is over."""

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Back from ``asdict`` and JSON, or only ``broken``."""
        calls = tuple(ToolCall(**call) for call in document.get("calls", ()))
        return cls(**{**document, "calls": calls, "observations": tuple(document.get("observations", ()))})


class Crew(AbstractContextManager["Crew", None]):
    """Episodes side by side, each known by its index in the list that ``begin`` was given. Every episode ends with exactly
    one Opening or Move that is broken or done; one that breaks leaves the others alone."""

    def __init__(self, alive: Callable[[], None]) -> None:
        self._alive, self._beaten = alive, 0.0
        self._going: set[int] = set()

    def begin(self, tasks: Sequence[Mapping[str, Any]]) -> list[Opening]:
        """Ends whatever went on before. Raises UsageError where no environment can be made from the settings."""
        with self._closed_if_it_raises():
            answers = self._ask("begin", dict(enumerate(tasks)))
            openings = [Opening.of_document(answers[index]) for index in range(len(tasks))]
        self._going = {index for index, opening in enumerate(openings) if not opening.broken}
        return openings

    def act(self, actions: Mapping[int, Action]) -> dict[int, Move]:
        """In the order of ``actions``. Raises UsageError for an episode that is over."""
        if stray := sorted(set(actions) - self._going):
            raise UsageError(f"episode {stray[0]} is over, or never began")
        with self._closed_if_it_raises():
            answers = self._ask("act", {index: asdict(action) for index, action in actions.items()})
            moves = {index: Move.of_document(answers[index]) for index in actions}
        self._going -= {index for index, move in moves.items() if move.done}
        return moves

    @abstractmethod
    def close(self) -> None:
        """Ends everything; may be called again."""

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _ask(self, verb: str, documents: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        """``verb``: begin, with tasks, or act, with actions as JSON has them. Index to Opening or Move as JSON."""

    def _beat(self) -> None:
        """Raises what ``alive`` raises."""
        if time.monotonic() - self._beaten >= BEAT_SECONDS:
            self._beaten = time.monotonic()
            self._alive()

    @contextmanager
    def _closed_if_it_raises(self) -> Iterator[None]:
        """What would be answered later could not be told from the answers to the next question."""
        try:
            yield
        except BaseException:
            self._going = set()
            self.close()
            raise


LARGEST_ANSWER = 16 * 2**20
"""Characters of what comes of one action, as JSON."""
log = logging.getLogger(__name__)


class CrewStage:
    """One environment for each episode's index, kept for later episodes unless it breaks."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._environments: dict[int, AgentEnv] = {}

    def begin(self, index: int, task: Mapping[str, Any]) -> str:
        """An Opening as JSON. Raises UsageError where no environment can be made."""
        if index not in self._environments:
            try:
                self._environments[index] = self._settings.build()
            except RatchetError as error:
                raise UsageError(str(error)) from error
            except (Exception, SystemExit) as error:
                what = f"the environment {self._settings.type} cannot be made: {type(error).__name__}: {error}"
                raise UsageError(what) from error
        environment = self._environments[index]
        try:
            messages = tuple(environment.reset(task))
            return _json(Opening(messages, tuple(environment.tools.schemas)))
        except (Exception, SystemExit) as error:  # noqa: BLE001  somebody's environment
            return _json(Opening(broken=self._drop_broken(index, "when it began", error)))

    def act(self, index: int, action: Mapping[str, Any]) -> str:
        """A Move as JSON. ``action``: an Action as JSON has it."""
        try:
            environment = self._environments[index]
            calls_before = len(environment.calls)
            requests = tuple(ToolRequest(call["name"], call["arguments"]) for call in action["calls"])
            step = environment.step(Action(action["text"], requests, action["error"]))
            reward = float(environment.get_reward()) if step.done else None
            if reward is not None and not math.isfinite(reward):
                raise ValueError(f"its reward is {reward}")
            calls = tuple(environment.calls[calls_before:])
            return _json(Move(str(step.observation), bool(step.done), calls, step.info, reward, step.observations))
        except (Exception, SystemExit) as error:  # noqa: BLE001  somebody's environment
            return _json(Move(broken=self._drop_broken(index, "in a step", error)))

    def close(self) -> None:
        self._environments = {}

    def _drop_broken(self, index: int, when: str, error: BaseException) -> str:
        del self._environments[index]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        message = f"the environment {self._settings.type} broke {when}: {reason}"
        log.warning(message, exc_info=error)
        return message


def _json(answer: Opening | Move) -> str:
    text = json.dumps(asdict(answer))
    if len(text) > LARGEST_ANSWER:
        raise ValueError(f"what came of it is larger than {LARGEST_ANSWER // 2**20} MiB")
    return text


class Here(Crew):
    """In this process, one environment after the other."""

    def __init__(self, settings: EnvironmentSettings, alive: Callable[[], None]) -> None:
        super().__init__(alive)
        self._stage = CrewStage(settings)

    def close(self) -> None:
        self._stage.close()

    def _ask(self, verb: str, documents: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        """Copies go in: what an environment does to its task is not done to the next episode's."""
        run, answers = self._stage.begin if verb == "begin" else self._stage.act, {}
        for index, document in documents.items():
            self._beat()
            answers[index] = json.loads(run(index, json.loads(json.dumps(document))))
        return answers


def main() -> None:
    """What other modules do at the exit of a process, they do before ``_end``."""
    atexit.register(_end)
    # tools that read standard input find it empty, and what they print goes to standard error
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):
        _serve(incoming, outgoing)


def _serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Raises BrokenPipeError when nobody reads the answers."""
    beginning = json.loads(incoming.readline())
    sys.path[:] = beginning["path"]
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(incoming, requests), daemon=True).start()
    Thread(target=_watch, args=(beginning["parent"],), daemon=True).start()
    stage = CrewStage(EnvironmentSettings(**beginning["settings"]))
    for verb, episodes in iter(requests.get, None):
        run = stage.begin if verb == "begin" else stage.act
        for index, document in episodes:
            try:
                answer = run(index, document)
            except UsageError as error:
                answer = json.dumps({"refused": str(error)})
            outgoing.write(f"[{index}, {answer}]\n".encode())
            outgoing.flush()
    stage.close()


def _listen(incoming: IO[bytes], requests: SimpleQueue[Any]) -> None:
    for line in incoming:
        requests.put(json.loads(line))
    requests.put(None)
    time.sleep(2.0)  # it may end by itself, though nobody waits for it any more
    _end()


def _watch(parent: int) -> None:
    """Standard input may stay open after the parent's death, in another process that it has forked."""
    while os.getppid() == parent:
        time.sleep(1.0)
    _end()


def _end() -> NoReturn:
    """A tool that hangs, in a thread or in a process of its own, would keep a worker that ends in another way."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)
