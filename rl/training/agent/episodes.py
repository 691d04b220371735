"""Episodes of a policy, many at once: in every turn one batch is generated, then all environments move.

What the model said is never rendered again: an episode is one growing list of token ids, and what the environment adds in
between is marked, so that a loss can leave it out.

    prompt_ids   ids: turn 1, observation 1, turn 2, ...   each (t) tokens; ``own`` and ``log_probs`` are (t) as well
                 own:  1 ... 1    0 ... 0     1 ... 1
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.environments.crew import Crew, Move, Opening
from rl.environments.episode import PlayedEpisode, Turn
from rl.lm.chat.format import ChatFormat
from rl.lm.lengths import TokenLimits

Ids = list[int]
Speak = Callable[["Sequence[Play]"], list[Ids]]
"""The next turn of each, up to its end token or the most tokens of a turn."""


@dataclass(slots=True)
class Play:
    """An episode under way."""

    number: int
    """The episode's number in the crew."""
    task: Mapping[str, Any]
    opening: Opening
    prompt_ids: Ids = field(default_factory=list)
    ids: Ids = field(default_factory=list)
    """All that follows the prompt."""
    own: list[int] = field(default_factory=list)
    """1 where the model said it, 0 where the environment did; as long as ``ids``."""
    log_probs: list[float] = field(default_factory=list)
    """Log-probabilities, as many as ``ids``, where the generator tells them; else empty."""
    turns: list[Turn] = field(default_factory=list)
    last: Ids = field(default_factory=list)
    """The newest turn."""
    done: bool = False
    reward: float | None = None
    success: bool = False
    reason: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    conversations: list[Play] = field(default_factory=list)
    """What the model said and heard, where that was not in one conversation; else empty, and the play itself is it."""

    @property
    def context(self) -> Ids:
        return self.prompt_ids + self.ids

    def say(self, ids: Ids) -> None:
        self.last = ids
        self.ids += ids
        self.own += [1] * len(ids)

    def hear(self, ids: Ids) -> None:
        self.ids += ids
        self.own += [0] * len(ids)
        if self.log_probs:
            self.log_probs += [0.0] * len(ids)  # masked, so any number will do

    def end(self, reason: str, reward: float | None, success: bool = False) -> None:
        self.done, self.reason, self.reward, self.success = True, reason, reward, success
        self.seconds = time.monotonic() - self.started

    def episode(self, environment: str, **where: Any) -> PlayedEpisode:
        """``where``: split, step and sample."""
        return PlayedEpisode(
            task_id=str(self.task["task_id"]),
            task=self.task,
            environment=environment,
            prompt=self.opening.messages,
            turns=tuple(self.turns),
            reward=self.reward,
            success=self.success,
            reason=self.reason,
            info=self.info,
            tokens_in=len(self.prompt_ids),
            seconds=self.seconds,
            **where,
        )


class Stage(ABC):
    """Where episodes are played."""

    def __init__(self, chat: ChatFormat, limits: TokenLimits) -> None:
        """``limits.answer``: most tokens of a turn."""
        self.chat, self.limits = chat, limits

    @abstractmethod
    def play(self, tasks: Sequence[Mapping[str, Any]], speak: Speak) -> list[Play]:
        """One episode of each task, to its end. Raises what ``speak`` and the world raise."""


class WorldStage(Stage):
    """Environments that move when the model has spoken."""

    def __init__(self, crew: Crew, chat: ChatFormat, limits: TokenLimits, failure_penalty: float = 0.0) -> None:
        """``failure_penalty``: reward of an episode that does not fit."""
        super().__init__(chat, limits)
        self.crew, self._penalty = crew, failure_penalty

    def play(self, tasks: Sequence[Mapping[str, Any]], speak: Speak) -> list[Play]:
        """A world that breaks is the end of its episode, without a reward."""
        plays = [
            Play(number, task, opening)
            for number, (task, opening) in enumerate(zip(tasks, self.crew.begin(tasks), strict=True))
        ]
        for play in plays:
            if play.opening.broken:
                play.end(play.opening.broken, None)
            else:
                play.prompt_ids = self.chat.prompt_ids(play.opening.messages, play.opening.tools)
                self._require_room(play)
        # turns: all episodes that go on take theirs together, so the batch shrinks as they end
        while active := [play for play in plays if not play.done]:
            # policy: one batch of turns
            for play, ids in zip(active, speak(active), strict=True):
                play.say(ids)
            # world: what each turn calls is done in all environments at once
            moves = self.crew.act({play.number: self.chat.action(play.last, play.opening.tools) for play in active})
            for play in active:
                self._see(play, moves[play.number])
        return plays

    def _see(self, play: Play, move: Move) -> None:
        text = self.chat.turn_text(play.last)
        play.turns.append(Turn(text, move.calls, move.observation, len(play.last), move.observations))
        play.info = move.info
        if move.broken:
            play.end(move.broken, None)
        elif move.done:
            play.end(str(move.info.get("reason", "")), move.reward, bool(move.info.get("success")))
        else:
            play.hear(self.chat.observation_ids(move.observations or [move.observation], play.last))
            self._require_room(play)

    def _require_room(self, play: Play) -> None:
        """For another turn. What the environment said last is taken back where there is none."""
        needed = len(play.prompt_ids) + len(play.ids) + self.limits.answer
        if needed > self.limits.most_tokens:
            play.end(f"no room for another turn in {self.limits.most_tokens} tokens (max_length)", self._penalty)
            while play.own and not play.own[-1]:
                for column in (play.ids, play.own, play.log_probs):
                    del column[-1:]
