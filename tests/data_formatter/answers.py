"""Short ways to write rated answers."""

from typing import Any

from rl.base.records import AnswerRating, DirectPreference, JudgedAnswer, Message, RatedAnswer, WidgetChoice

NEEDS: dict[str, Any] = {"type": "query", "domains": ["industrial"], "entities": {"devices": ["Pump 4", "Pump 5"]}}
SCENARIOS = ("alerts", "comparison", "kpi", "trend")


def widget(
    number: int,
    scenario: str,
    fixture: str,
    up: int = 0,
    down: int = 0,
    *,
    size: str = "normal",
    question: str = "q1",
    data: dict[str, Any] | None = None,
) -> RatedAnswer:
    """Its feedback ids are the number times 10, and so on, one for each rating."""
    return RatedAnswer(
        answer_id=f"e{number:03}",
        prompt_key=question,
        prompt=(Message(role="user", content="Compare the pumps"),),
        response=f"{scenario} ({size}): {fixture}",
        up=up,
        down=down,
        feedback_ids=tuple(number * 10 + i for i in range(up + down)),
        widget=WidgetChoice(scenario, fixture, size, "Compare the pumps", NEEDS, data or {}),
    )


def answer(number: int, text: str, up: int = 0, down: int = 0, *, key: str = "p") -> RatedAnswer:
    prompt = (Message(role="system", content="Be brief."), Message(role="user", content=f"Question {key}"))
    ids = tuple(number * 10 + i for i in range(up + down))
    return RatedAnswer(f"a{number:03}", key, prompt, text, up, down, ids)


def direct(number: int, chosen: str, rejected: str, *, key: str = "p") -> DirectPreference:
    return DirectPreference(key, (Message(role="user", content=f"Question {key}"),), chosen, rejected, number)


def judged(number: int, response: str = "On its way.", *, key: str = "p", **said: Any) -> JudgedAnswer:
    """``ratings``: values only; their ids are 10 × number and what follows."""
    values = said.pop("ratings", ())
    return JudgedAnswer(
        trace_ids=(f"t{number}",),
        prompt_key=key,
        split_key=f"hash of {key}",
        prompt=(Message(role="user", content=f"Question {key}"),),
        response=response,
        ratings=tuple(AnswerRating(10 * number + place, value) for place, value in enumerate(values)),
        **said,
    )
