"""Many programs at once, and the model that answers all of them.

Each episode's program runs in a thread of ours, which waits for its end and judges it. What programs ask arrives in other
threads, and is answered by whoever holds the model, in one: ``calls`` gives what is to be answered, all of it together."""

from __future__ import annotations

import json
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event
from typing import Any

from rl.base.errors import Interrupted
from rl.environments.crew.stage import BEAT_SECONDS
from rl.environments.program.door import Door
from rl.environments.program.environment import ProgramEnv, ProgramPlay, judge
from rl.environments.program.openai_chat import CallRefused, ChatReply, End, ProgramRequest
from rl.environments.program.process import POLL_SECONDS, Keeper, Process

PATIENCE_SECONDS = 1.0
"""Time for which the first that asks waits for the others to ask too."""


@dataclass(slots=True, eq=False)
class ModelCall:
    """A question to the model, of the episode with this number."""

    number: int
    request: ProgramRequest
    asked: float = field(default_factory=time.monotonic)
    answered: Event = field(default_factory=Event)
    outcome: ChatReply | CallRefused | None = None

    def answer(self, outcome: ChatReply | CallRefused) -> None:
        self.outcome = outcome
        self.answered.set()


class ProgramRound:
    """One episode of each task. Everything in it is guarded by ``changed``."""

    def __init__(self, environment: ProgramEnv, tasks: Sequence[Mapping[str, Any]], changed: Condition) -> None:
        self.environment, self.changed = environment, changed
        self.episodes = [_Episode(number, task) for number, task in enumerate(tasks)]
        self.by_key = {episode.key: episode for episode in self.episodes}
        self.waiting: list[ModelCall] = []
        self.taken: list[ModelCall] = []
        """Those that were handed out last."""
        self.stopped = Event()

    def ask(self, key: str, request: ProgramRequest) -> ChatReply:
        """In the thread of a request. Raises CallRefused."""
        with self.changed:
            episode = self.by_key.get(key)
            if episode is None or not episode.is_running:
                raise CallRefused(
                    "the key in the address belongs to no episode that is going on", "invalid_api_key", 401
                )
            if len(episode.calls) + episode.open >= self.environment.max_turns:
                episode.why_ended = f"the command did not end within {self.environment.max_turns} answers (max_turns)"
                raise CallRefused(episode.why_ended, "max_turns", 429)
            call = ModelCall(episode.number, request)
            episode.begin_to_wait()
            self.waiting.append(call)
            self.changed.notify_all()
        call.answered.wait()
        with self.changed:
            episode.end_to_wait()
            if isinstance(call.outcome, ChatReply):
                episode.calls.append((request, call.outcome))
                return call.outcome
        raise call.outcome or CallRefused("the episode is over", status=410)

    def ready(self) -> list[ModelCall]:
        """What waits, when all that could ask have asked or the first has waited long enough; in the order of the
        episodes, so that the same questions are answered in the same order again."""
        running = {episode.number for episode in self.episodes if episode.is_running}
        asking = {call.number for call in self.waiting}
        patient = self.waiting and time.monotonic() - self.waiting[0].asked < PATIENCE_SECONDS
        if not self.waiting or (patient and running - asking):
            return []
        self.taken, self.waiting = sorted(self.waiting, key=lambda call: call.number), []
        return self.taken

    def drop(self, number: int) -> None:
        """What the episode with this number still asks."""
        for call in self.waiting:
            if call.number == number:
                call.answer(CallRefused("the episode is over", status=410))
        self.waiting = [call for call in self.waiting if call.number != number]

    def stop(self) -> None:
        self.stopped.set()
        with self.changed:
            for episode in self.episodes:
                episode.why_ended = episode.why_ended or "the training was stopped"
                self.drop(episode.number)
            for call in self.taken:
                if not call.answered.is_set():
                    call.answer(CallRefused("the training was stopped", status=503))


@dataclass(slots=True, eq=False)
class _Episode:
    number: int
    task: Mapping[str, Any]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    is_running: bool = False
    open: int = 0
    """Questions that are not answered yet."""
    waits_since: float = 0.0
    waited: float = 0.0
    """Seconds."""
    why_ended: str = ""
    calls: list[tuple[ProgramRequest, ChatReply]] = field(default_factory=list)

    def begin_to_wait(self) -> None:
        self.waits_since = self.waits_since if self.open else time.monotonic()
        self.open += 1

    def end_to_wait(self) -> None:
        self.open -= 1
        self.waited += 0.0 if self.open else time.monotonic() - self.waits_since

    def own_seconds(self, started: float) -> float:
        now = time.monotonic()
        return now - started - self.waited - (now - self.waits_since if self.open else 0.0)


class Programs(AbstractContextManager["Programs", None]):
    """Close it, or use it as a context: it has threads, a port and a child."""

    def __init__(self, environment: ProgramEnv, at_once: int, alive: Callable[[], None]) -> None:
        """``alive`` is called about twice a second while there is something to wait for. When it raises Interrupted all
        programs are ended, without a reward; anything else it raises ends the round."""
        self.environment, self._alive = environment, alive
        self._at_once = at_once or 8
        self._changed = Condition()
        self._round: ProgramRound | None = None
        self._keeper = Keeper()
        self._door = Door(self._ask)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything; may be called again."""
        self._door.close()
        self._keeper.close()

    @contextmanager
    def playing(self, tasks: Sequence[Mapping[str, Any]]) -> Iterator[_Playing]:
        """Programs that still run at the end are killed."""
        this_round = ProgramRound(self.environment, tasks, self._changed)
        with ThreadPoolExecutor(self._at_once, "program") as pool:
            self._round = this_round
            futures = [pool.submit(self._play, this_round, episode) for episode in this_round.episodes]
            try:
                yield _Playing(this_round, futures, self._alive)
            finally:
                for future in futures:
                    future.cancel()
                this_round.stop()

    def _ask(self, key: str, request: ProgramRequest) -> ChatReply:
        if self._round is None:
            raise CallRefused("no episode is going on", "invalid_api_key", 401)
        return self._round.ask(key, request)

    def _play(self, this_round: ProgramRound, episode: _Episode) -> End:
        """Raises UsageError and RewardFailed."""
        folder = Path(tempfile.mkdtemp(prefix="ratchet-episode-"))
        try:
            return judge(self.environment, self._run(this_round, episode, folder), self._keeper, this_round.stopped)
        finally:
            shutil.rmtree(folder, onerror=_open_and_remove)
            with self._changed:
                self._changed.notify_all()

    def _run(self, this_round: ProgramRound, episode: _Episode, folder: Path) -> ProgramPlay:
        environment = self.environment
        variables = environment.variables(self._door.address(episode.key), episode.key)
        command = environment.arguments(environment.command, episode.task)
        with self._changed:
            episode.is_running, started = True, time.monotonic()
        process = None
        try:
            stdin = json.dumps(episode.task, ensure_ascii=False) + "\n"
            process = Process(command, folder, variables, stdin, self._keeper)
            while (code := process.wait(POLL_SECONDS)) is None and not episode.why_ended:
                with self._changed:
                    if episode.own_seconds(started) > environment.time_limit:
                        episode.why_ended = f"the command did not end within {environment.time_limit:g} seconds"
        finally:
            if process:
                process.end()
            with self._changed:
                episode.is_running, seconds = False, episode.own_seconds(started)
                this_round.drop(episode.number)
                self._changed.notify_all()
        lasted, calls = time.monotonic() - started, list(episode.calls)
        texts = process.output, process.errors
        return ProgramPlay(episode.task, folder, calls, code, episode.why_ended, *texts, seconds, lasted)


def _open_and_remove(remove: Callable[[str], None], path: str, _: object) -> None:
    """What a program has closed for itself is opened again, and goes too, if it can."""
    with suppress(OSError):
        Path(path).parent.chmod(stat.S_IRWXU)
        if not Path(path).is_symlink():
            Path(path).chmod(stat.S_IRWXU)
        shutil.rmtree(path, ignore_errors=True) if Path(path).is_dir() else remove(path)


class _Playing:
    def __init__(self, this_round: ProgramRound, futures: Sequence[Future[End]], alive: Callable[[], None]) -> None:
        self._round, self._futures, self._alive = this_round, futures, alive

    def calls(self) -> list[ModelCall]:
        """What is to be answered next; each call is answered or refused. Empty when all episodes have ended. Raises what
        judging an episode raises."""
        while True:
            with self._round.changed:
                if calls := self._round.ready():
                    return calls
                if all(future.done() for future in self._futures):
                    return []
                self._round.changed.wait(min(BEAT_SECONDS, PATIENCE_SECONDS / 4))
            for future in self._futures:
                if future.done():
                    future.result()
            try:
                self._alive()
            except Interrupted:
                self._round.stop()

    def ends(self) -> list[End]:
        """In the order of the tasks, when no call is left."""
        return [future.result() for future in self._futures]
