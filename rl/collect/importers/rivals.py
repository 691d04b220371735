"""Several answers in one row of public data, and what says which of them is better: a verdict on two of them (SHP,
PKU-SafeRLHF, HelpSteer, AlpacaFarm, Chatbot Arena), a rank (Nectar), a score (UltraFeedback)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from rl.collect.importers import chat
from rl.collect.importers.annotators import Choice, Compared
from rl.collect.importers.chat import RATER, Talk
from rl.collect.importers.columns import Columns
from rl.collect.importers.fields import Refused, as_word, from_text, number, thumb
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace


class DuelColumns(NamedTuple):
    first: str
    second: str
    verdict: str
    means: Mapping[str, Choice]
    """The verdict as text, in small letters, to the choice; without any it is a number, below 0 for the first."""


_ARENA: Final[Mapping[str, Choice]] = {
    **dict.fromkeys(("model_a", "a"), "left"),
    **dict.fromkeys(("model_b", "b"), "right"),
    "tie": "tie",
    **dict.fromkeys(("tie (bothbad)", "both_bad"), "both_bad"),
}
_ONE_HOT: Final[Mapping[str, Choice]] = {"winner_model_a": "left", "winner_model_b": "right", "winner_tie": "tie"}
"""One is 1 and the others 0; question and answers are lists of turns then, as JSON text."""
DUELS: Final = (
    DuelColumns("human_ref_a", "human_ref_b", "labels", {"1": "left", "0": "right"}),
    DuelColumns("response_0", "response_1", "better_response_id", {"0": "left", "1": "right"}),
    DuelColumns("response1", "response2", "overall_preference", {}),
    DuelColumns("response_1", "response_2", "preference_strength", {}),
    DuelColumns("output_1", "output_2", "preference", {"1": "left", "2": "right", "0": "tie", "1.5": "tie"}),
    DuelColumns("conversation_a", "conversation_b", "winner", _ARENA),
    DuelColumns("response_a", "response_b", "winner", _ARENA),
    DuelColumns("response_a", "response_b", next(iter(_ONE_HOT)), _ONE_HOT),
)
RANKED: Final = ("answers", "completions", "responses")
_TEXTS: Final = ("answer", "response", "completion", "text", "content", "output")
_SCORES: Final = ("overall_score", "score", "reward")


def find_duel(columns: Columns) -> DuelColumns | None:
    """Raises Refused for two answers without the verdict that belongs to them."""
    duels = [duel for duel in DUELS if columns.has([duel.first]) and columns.has([duel.second])]
    duel = next((duel for duel in duels if columns.has([duel.verdict])), next(iter(duels), None))
    if duel and not columns.has([duel.verdict]):
        both = f"{duel.first} and {duel.second}"
        raise Refused(f"has {both}, and no {duel.verdict} that says which is better; name them chosen and rejected")
    return duel


def read_duel(columns: Columns, duel: DuelColumns, where: str) -> list[ImportedTrace]:
    """Raises Refused."""
    if duel.means is _ONE_HOT:
        asked = columns.take(["prompt"], "the question")
        won = [choice for name, choice in _ONE_HOT.items() if thumb(columns.take([name], "which answer is better"))]
        if len(won) != 1:
            raise Refused(f"of {', '.join(_ONE_HOT)} not one is 1, but {len(won)}")
        choice = won[0]
        left, right = (_by_turns(asked, answer, name) for name, answer in _answers(columns, duel.first, duel.second))
    else:
        choice = _choice(duel, columns.take([duel.verdict], "which answer is better"))
        left, right = _talks(columns, duel.first, duel.second)
    rater = columns.rater()
    if choice == "right":
        return chat.pair(where, right, left, columns.details(), picks=[(rater, "left")])
    return chat.pair(where, left, right, columns.details(), picks=[(rater, choice)])


def read_compared(columns: Columns, compared: Compared, where: str) -> list[ImportedTrace]:
    """Raises Refused."""
    if not compared.picks:
        raise Refused("nobody has compared the two answers")
    left, right = _talks(columns, compared.first, compared.second)
    return chat.pair(where, left, right, columns.details(), picks=compared.picks)


def _talks(columns: Columns, first: str, second: str) -> list[Talk]:
    """Both answers behind the same question. Raises Refused."""
    answers, before = _answers(columns, first, second), columns.before()
    return [columns.talk(before, answer, name) for name, answer in answers]


def _answers(columns: Columns, first: str, second: str) -> list[tuple[str, Any]]:
    named = ((first, "an answer"), (second, "another answer"))
    return [(name, columns.take([name.lower()], meaning)) for name, meaning in named]


def _choice(duel: DuelColumns, verdict: Any) -> Choice:
    if not duel.means:
        strength = number({duel.verdict: verdict}, duel.verdict) or 0
        return "left" if strength < 0 else "right" if strength > 0 else "tie"
    word = as_word(verdict)
    if word not in duel.means:
        raise Refused(f"{duel.verdict} must be one of {', '.join(duel.means)}, not {verdict!r:.50}")
    return duel.means[word]


def _by_turns(questions: Any, answers: Any, field: str) -> Talk:
    """Raises Refused."""
    asked, texts = from_text(questions), from_text(answers)
    if not isinstance(asked, list) or not isinstance(texts, list) or len(asked) != len(texts):
        raise Refused(f"{field} must be a list of as many answers as prompt has questions")
    turns = [(("user", question), ("assistant", text)) for question, text in zip(asked, texts, strict=True)]
    return chat.talk([{"role": role, "content": words} for turn in turns for role, words in turn], field)


def find_ranked(columns: Columns) -> str:
    """The column with a list of answers that are objects; empty where there is none."""
    lists = {name.lower(): value for name, value in columns.row.items() if isinstance(value, list) and value}
    return next((name for name in RANKED if name in lists and isinstance(lists[name][0], dict)), "")


def read_ranked(columns: Columns, column: str, where: str) -> list[ImportedTrace]:
    """The best before each of the others that is worse. Raises Refused."""
    answers, before = columns.take([column], "answers and which is better"), columns.before()
    details = columns.details()
    made: dict[str, tuple[float, ImportedTrace]] = {}
    for field, answer in ((f"{column}[{index}]", answer) for index, answer in enumerate(answers)):
        text, rank = _text_of(answer, field), _rank(answer, field)
        talk = columns.talk(before, answer[text], field)
        more = {name: value for name, value in answer.items() if name != text}
        if rank < made.get(talk.response, (rank + 1,))[0]:  # of equal answers the one with the better rank
            made[talk.response] = rank, chat.trace(where, talk, {**details, **more})
    (least, best), *others = sorted(made.values(), key=lambda pair: pair[0])
    if not best.response.strip():
        raise Refused("the best answer is blank")
    return [*(other for _, other in others), over(best, [other for rank, other in others if rank > least])]


def over(best: ImportedTrace, worse: Sequence[ImportedTrace]) -> ImportedTrace:
    """The answer as better than each of the others."""
    ids = [other.external_id for other in worse]
    picks = [ImportedFeedback(kind="comparison", rater=RATER, choice="left", other_external_id=name) for name in ids]
    return replace(best, feedback=tuple(picks))


def _text_of(answer: object, field: str) -> str:
    """The name of its text. Raises Refused."""
    text = next((name for name in _TEXTS if isinstance(answer, dict) and answer.get(name) is not None), None)
    if text is None:
        raise Refused(f"{field} has no text; wanted is one of {', '.join(_TEXTS)}")
    return text


def _rank(answer: Mapping[str, Any], field: str) -> float:
    """Small for a good one. Raises Refused."""
    own, *scores = (number(answer, name) for name in ("rank", *_SCORES))
    score = next((value for value in scores if value is not None), None)
    if own is None and score is None:
        raise Refused(f"{field} has neither a rank nor a score; make a row of each, with prompt and completion")
    return own if own is not None else -(score or 0)
