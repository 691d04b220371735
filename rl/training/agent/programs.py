"""Episodes of programs: whatever they ask is answered by the policy, and what it said in each conversation is kept.

What the model said is never rendered again. A request that goes on where an earlier answer of its episode ended continues
that conversation, token by token; any other begins one of its own. So an episode has one or more conversations, each a
Play as of other environments (episodes.py), and each is learned from with the episode's reward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import Message, ToolCall
from rl.environments.contract import Action
from rl.environments.crew import Opening
from rl.environments.episode import Turn
from rl.environments.program.openai_chat import CallRefused, ChatMessage, ChatReply, End, ProgramRequest
from rl.environments.program.programs import ModelCall, Programs
from rl.lm.chat.format import ChatFormat
from rl.lm.lengths import TokenLimits
from rl.training.agent.episodes import Ids, Play, Speak, Stage


@dataclass(slots=True)
class _Answer:
    """An answer that was given, and where it stands in its conversation."""

    messages: tuple[ChatMessage, ...]
    """All that was said so far, the answer too."""
    tools: tuple[Mapping[str, Any], ...]
    play: Play
    length: int
    """Tokens of the conversation up to its end."""
    text: str
    calls: list[ToolCall]
    ids: Ids
    heard: list[str] = field(default_factory=list)
    """What came after it."""


class ProgramStage(Stage):
    def __init__(self, programs: Programs, chat: ChatFormat, limits: TokenLimits) -> None:
        super().__init__(chat, limits)
        self._programs = programs

    def play(self, tasks: Sequence[Mapping[str, Any]], speak: Speak) -> list[Play]:
        """Raises UsageError for a command that cannot be started, RewardFailed, and what ``speak`` raises."""
        plays = [Play(number, task, Opening()) for number, task in enumerate(tasks)]
        answers: list[list[_Answer]] = [[] for _ in tasks]
        with self._programs.playing(tasks) as playing:
            while calls := playing.calls():
                self._answer(calls, plays, answers, speak)
            ends = playing.ends()
        for play, end, given in zip(plays, ends, answers, strict=True):
            _close(play, end, given)
        return plays

    def _answer(
        self, calls: Sequence[ModelCall], plays: Sequence[Play], answers: Sequence[list[_Answer]], speak: Speak
    ) -> None:
        # each call is the next turn of a conversation; those that leave no room for one are refused
        conversations = []
        for call in calls:
            try:
                conversations.append((call, self._conversation(call, plays[call.number], answers[call.number])))
            except CallRefused as refusal:
                call.answer(refusal)
        # policy: one batch for all
        spoken = speak([conversation for _, conversation in conversations]) if conversations else []
        for (call, conversation), ids in zip(conversations, spoken, strict=True):
            answer = self._take(call, conversation, ids)
            answers[call.number].append(answer)

    def _conversation(self, call: ModelCall, play: Play, given: Sequence[_Answer]) -> Play:
        """The one that the request continues, or a new one. Raises CallRefused."""
        request = call.request
        # the answer behind which the request goes on, the latest in its conversation, and of equal ones the newest
        fitting = [
            answer
            for answer in given
            if answer.tools == request.tools and answer.messages == request.messages[: len(answer.messages)]
        ]
        earlier = max(reversed(fitting), key=lambda answer: len(answer.messages), default=None)
        tail = request.messages[len(earlier.messages) :] if earlier else ()
        ids = self.chat.reply_ids(tail, earlier.ids) if earlier else None
        if earlier is None or ids is None:
            try:
                ids = self.chat.conversation_ids(request.messages, request.tools)
            except UsageError as error:
                raise CallRefused(str(error)) from error
            conversation = Play(play.number, play.task, _opening(request))
            self._require_room(len(ids))
            conversation.prompt_ids = ids
        elif earlier.length == len(earlier.play.context):
            self._require_room(earlier.length + len(ids))
            conversation = earlier.play
            conversation.hear(ids)
        else:  # it has gone on in another way already: what is shared is read here, and learned there
            self._require_room(earlier.length + len(ids))
            conversation = Play(play.number, play.task, _opening(request))
            conversation.prompt_ids = earlier.play.context[: earlier.length] + ids
        if earlier:
            _hear(earlier, tail)
        if not any(conversation is known for known in play.conversations):
            play.conversations.append(conversation)
        return conversation

    def _require_room(self, tokens: int) -> None:
        if tokens + self.limits.answer > self.limits.most_tokens:
            raise CallRefused(
                f"{tokens} tokens leave no room for an answer of {self.limits.answer} in {self.limits.most_tokens} "
                "(max_length)",
                "context_length_exceeded",
            )

    def _take(self, call: ModelCall, conversation: Play, ids: Ids) -> _Answer:
        """Gives the program what the model said, as far as it was asked for."""
        request, context = call.request, len(conversation.context)
        ids = self._up_to_a_stop(ids[: request.most_tokens], request.stop)
        conversation.say(ids)
        del conversation.log_probs[len(conversation.ids) :]
        action = self.chat.action(ids, request.tools)
        # where calls cannot be read, or nobody asked for any, all of it is text, as servers of models have it
        if action.error or (action.calls and not request.tools):
            action = Action(self.chat.turn_text(ids))
        stops = [at for stop in request.stop if (at := action.text.find(stop)) >= 0]
        text = action.text[: min(stops, default=len(action.text))]
        is_cut = not (ids and ids[-1] in self.chat.end_ids) and text == action.text
        call.answer(ChatReply(text, action.calls, is_cut, context, len(ids)))
        message = ChatMessage("assistant", text, action.calls)
        return _Answer(
            (*request.messages, message),
            request.tools,
            conversation,
            len(conversation.context),
            self.chat.turn_text(ids),
            [ToolCall(requested.name, dict(requested.arguments)) for requested in action.calls],
            ids,
        )

    def _up_to_a_stop(self, ids: Ids, stops: Sequence[str]) -> Ids:
        """The fewest tokens whose text has one of the stops."""
        if not any(stop in self.chat.turn_text(ids) for stop in stops):
            return ids
        return next(
            ids[:end] for end in range(1, len(ids) + 1) if any(stop in self.chat.turn_text(ids[:end]) for stop in stops)
        )


def _hear(answer: _Answer, tail: Sequence[ChatMessage]) -> None:
    answer.heard = [message.content for message in tail]
    results = [message.content for message in tail if message.role == "tool"]
    if len(results) == len(answer.calls):
        answer.calls = [
            ToolCall(call.tool_name, call.arguments, result) for call, result in zip(answer.calls, results, strict=True)
        ]


def _opening(request: ProgramRequest) -> Opening:
    messages = tuple(Message(role=message.role, content=message.content) for message in request.messages)
    return Opening(messages, request.tools)


def _close(play: Play, end: End, given: Sequence[_Answer]) -> None:
    if play.conversations:
        first = play.conversations[0]
        play.opening, play.prompt_ids = first.opening, first.prompt_ids
    play.turns = [
        Turn(
            answer.text,
            tuple(answer.calls),
            "\n\n".join(answer.heard),
            len(answer.ids),
            tuple(answer.heard) if len(answer.heard) > 1 else (),
        )
        for answer in given
    ]
    play.info = {**end.info, "conversations": len(play.conversations)}
    play.end(end.reason, end.reward, end.success)
    play.seconds = float(end.info["seconds"])  # others of the round lasted longer
