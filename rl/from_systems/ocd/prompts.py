"""How OCD asks FILER and PRIORITIZER: a system text, and what the state says, line by line.

The lines are OCD's. The system text is the agent's own, where it has one, such as OCD's word for word; else it is ours."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rl.base.records import Message

MOST_PROJECTS, MOST_ITEMS, MOST_CONTENT = 10, 20, 500
"""Projects and items that are listed, and characters of a project's text."""
FILER_SYSTEM: Final = """\
You file what people write down. Read the instructions, the routing notes and the project that the item belongs to, and
answer with one JSON object and nothing else. Its keys:
- swimlane: EXPEDITE for what is urgent or comes from outside, HOME for errands at home, HABIT for what recurs, else PROJECT
- priority: HIGH, MEDIUM or LOW
- labels: a list, with the name of each known project that is meant
- status: TODO for what can begin now, else ON_HOLD
- reasoning: one sentence
- confidence: from 0 to 1"""
PRIORITIZER_SYSTEM: Final = """\
You choose the one item to work on next from all that are open. Weigh the goals that it serves, how urgent and how old it is,
the time of day, what it waits for, and what was worked on before. Answer with one JSON object and nothing else. Its keys:
- recommendedItemId: the ID of the item
- confidence: from 0 to 1
- reasoning: one sentence"""


def ask_filer(state: Mapping[str, Any], system: str = "") -> list[Message] | None:
    item = state.get("item")
    if not isinstance(item, Mapping):
        return None
    lines = [
        f"Instructions: {_said(item, 'rawInstructions', '')}",
        f"Routing Notes: {_said(item, 'routingNotes')}",
        f"Item Title: {_said(item, 'title', '')}",
    ]
    project = state.get("assignedOpus")
    if isinstance(project, Mapping) and project:
        content = _said(project, "content", "")[:MOST_CONTENT]
        lines += ["", "Assigned Project:", f"- Name: {_said(project, 'name', '')}"]
        lines += [f"- Type: {_said(project, 'opusType', '')}", f"- Content: {content}..."]
    if projects := _objects(state.get("availableOpuses"))[:MOST_PROJECTS]:
        lines += ["", "Available Projects:"]
        lines += [f"- {_said(other, 'name', '')} ({_said(other, 'opusType', '')})" for other in projects]
    return _messages(system or FILER_SYSTEM, lines)


_PARTS: Final = (("userContext", "currentContext"), ("strategicState", "strategicGoals"), ("constraints",))
"""Names of the parts of a state: as OCD asks them, as it stores them."""


def ask_prioritizer(state: Mapping[str, Any], system: str = "") -> list[Message] | None:
    items = state.get("availableItems", state.get("todoItems"))
    if not isinstance(items, Sequence) or isinstance(items, str):
        return None
    parts = (next((state[name] for name in names if name in state), None) for names in _PARTS)
    person, goals, limits = (part if isinstance(part, Mapping) else {} for part in parts)
    lines = [f"Available TODO Items ({len(items)} items):", ""]
    for item in _objects(items)[:MOST_ITEMS]:
        labels = item.get("labels")
        lines += [
            f"- ID: {_said(item, 'id', '')}",
            f"  Title: {_said(item, 'title', '')}",
            f"  Swimlane: {_said(item, 'swimlane', '')}",
            f"  Priority: {_said(item, 'priority', '')}",
            f"  Labels: {', '.join(map(str, labels)) if isinstance(labels, list) else ''}",
            f"  Age: {_said(item, 'statusChangedAt', 'Unknown')}",
            "",
        ]
    lines += [
        "",
        "User Context:",
        f"- Current Time: {_said(person, 'currentTime', 'Unknown')}",
        f"- Day of Week: {_said(person, 'dayOfWeek', 'Unknown')}",
        f"- Current Focus: {_said(person, 'currentFocus')}",
        "",
        "Strategic State:",
        f"- Income Goal Progress: {_number(goals, 'incomeGoalProgress'):.1%}",
        f"- Authority Goal Progress: {_number(goals, 'authorityGoalProgress'):.1%}",
        "",
        "Constraints:",
        f"- WIP Count: {_number(limits, 'wipCount'):g}",
        f"- Blocked Count: {_number(limits, 'blockedCount'):g}",
        f"- Average Cycle Time: {_number(limits, 'averageCycleTime'):.1f} days",
    ]
    return _messages(system or PRIORITIZER_SYSTEM, lines)


def _messages(system: str, lines: Sequence[str]) -> list[Message]:
    text = "\n".join(lines).strip()
    return [Message(role="system", content=system), Message(role="user", content=text)]


def _said(values: Mapping[str, Any], name: str, otherwise: str = "None") -> str:
    value = values.get(name)
    return otherwise if value is None else str(value)


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []
