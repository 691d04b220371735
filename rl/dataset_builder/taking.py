"""A prompt template out of a prompt that the gateway recorded: the words of the application itself, with blanks for what
differs from question to question."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import UUID

import yaml
from django.conf import settings
from django.db.models import QuerySet

from rl.base.errors import UsageError
from rl.base.files import write_text
from rl.base.records import Message, WidgetChoice
from rl.base.slugs import check_slug
from rl.collect.command_center import widget_choice
from rl.data_formatter.wording.contract import entities, names
from rl.data_formatter.wording.written import BLANK, WrittenPrompts
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.wording import FIXTURE, PROMPT_TEMPLATES, WIDGETS, template_files
from rl.models import Agent, Trace
from rl.models.traces import GATEWAY

COMPARED = 50
"""Other recorded prompts, the newest first, that are looked at for what differs."""
MOST_QUESTIONS = 10_000
PARTS = (WIDGETS, FIXTURE)


@dataclass(frozen=True, slots=True)
class TakenTemplate:
    file: Path
    trace: UUID
    messages: tuple[Message, ...]
    blanks: tuple[str, ...]
    """Names, in the order of the text."""
    differing: tuple[str, ...]
    """Lines without a blank that other recorded prompts have not: they would be learned as they stand here."""


def recorded_prompts(agent: Agent) -> QuerySet[Trace]:
    """Those whose answers went through the gateway, the newest first."""
    return Trace.objects.filter(agent=agent, source=GATEWAY).order_by("-created_at", "id")


def can_be_taken(agent: Agent) -> int:
    """How many recorded prompts an agent has that chooses widgets and was not given a template of the operator's yet."""
    if agent.pair_type == Agent.PairType.PREFERENCE or agent.prompt_template in template_files():
        return 0
    return recorded_prompts(agent).count()


def take_template(
    agent: Agent, name: str, *, part: str = WIDGETS, trace: str = "", question: str = ""
) -> TakenTemplate:
    """Writes the section ``part`` of the template's file. ``trace``: which prompt; by default the newest that holds a known
    question. ``question``: the words in it that are the question. Raises UsageError."""
    check_slug(name, "the name of a template")
    if name in PROMPT_TEMPLATES:
        raise UsageError(f"the template {name} is there already and not the operator's: choose another name")
    known = _known_questions(agent)
    chosen, asked = _choose(agent, trace, question, known)
    scenarios = [*DatabaseSource(agent).fixtures()] if part == WIDGETS else []
    messages = tuple(_with_blanks(chosen.prompt, asked, known.get(asked), scenarios))
    WrittenPrompts(widgets=messages if part == WIDGETS else (), fixture=messages if part == FIXTURE else ())
    file = _write(name, part, messages)
    blanks = tuple(dict.fromkeys(blank[1] for message in messages for blank in BLANK.finditer(message["content"])))
    return TakenTemplate(file, chosen.pk, messages, blanks, tuple(_differing(agent, chosen, messages)))


def _known_questions(agent: Agent) -> dict[str, WidgetChoice]:
    """Question to the choice of one answer to it."""
    rows = Trace.objects.filter(agent=agent, details__has_key="scenario").order_by().values_list("details", "prompt")
    choices = (widget_choice(details, prompt) for details, prompt in rows.iterator(chunk_size=500))
    known: dict[str, WidgetChoice] = {}
    for choice in choices:
        if choice and choice.question.strip() and len(known) < MOST_QUESTIONS:
            known.setdefault(choice.question, choice)
    return known


def _choose(agent: Agent, trace: str, question: str, known: dict[str, WidgetChoice]) -> tuple[Trace, str]:
    candidates = recorded_prompts(agent)
    if not candidates.exists():
        raise UsageError(
            f"the gateway has recorded no prompt of {agent.name}: send its requests through the gateway first"
        )
    if trace:
        try:
            candidates = candidates.filter(pk=UUID(trace))
        except ValueError:
            raise UsageError(f"--trace takes the id of a trace, not {trace!r:.60}") from None
    for row in islice(candidates.iterator(chunk_size=100), COMPARED):
        text = "\n".join(message["content"] for message in row.prompt)
        held = question if question in text else ""
        if asked := held if question else max((q for q in known if q in text), key=len, default=""):
            return row, asked
    which = f"prompt {trace}" if trace else f"the newest {COMPARED} recorded prompts"
    what = f"the question {question!r:.80}" if question else "a question of an imported run"
    raise UsageError(f"{which} do not hold {what}: say with --question which words of the prompt are the question")


def _with_blanks(
    prompt: Sequence[Message], question: str, choice: WidgetChoice | None, scenarios: Sequence[str]
) -> Iterator[Message]:
    """What is known besides the question gets a blank where it stands once: a word such as "energy" may be the rules'."""
    whole = "\n".join(message["content"] for message in prompt)
    if BLANK.search(whole):
        raise UsageError("the prompt itself has words in double braces, which stand for blanks: write the file by hand")
    names_of = {text: name for text, name in _known_values(choice, scenarios) if text and whole.count(text) == 1}
    names_of[question] = "question"
    value = re.compile("|".join(re.escape(text) for text in sorted(names_of, key=len, reverse=True)))
    for message in prompt:
        content = value.sub(lambda match: f"{{{{{names_of[match[0]]}}}}}", message["content"])
        yield Message(role=message["role"], content=content)


def _known_values(choice: WidgetChoice | None, scenarios: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield ", ".join(scenarios), "scenarios"
    if choice:
        yield names(choice.intent.get("domains")), "domains"
        yield "; ".join(f"{kind}: {listed}" for kind, listed in entities(choice.intent).items()), "entities"


def _differing(agent: Agent, chosen: Trace, messages: Sequence[Message]) -> Iterator[str]:
    """Prompts that share less than half of their lines ask for something else, and are not compared."""
    lines = [line for message in messages for line in message["content"].splitlines() if not BLANK.search(line)]
    others = recorded_prompts(agent).exclude(pk=chosen.pk).values_list("prompt", flat=True)[:COMPARED]
    for_sure = set(lines) - {""}
    of_others = [{line for message in prompt for line in message["content"].splitlines()} for prompt in others]
    alike = [other for other in of_others if len(other & for_sure) * 2 > len(for_sure)]
    yield from (line for line in dict.fromkeys(lines) if line and any(line not in other for other in alike))


def _write(name: str, part: str, messages: Sequence[Message]) -> Path:
    """Beside the other sections of the file, where there is one."""
    file: Path = template_files().get(name) or settings.PROMPT_TEMPLATES_DIR / f"{name}.yaml"
    document = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    if not isinstance(document, dict) or not isinstance(document.setdefault("prompt", {}), dict):
        raise UsageError(f"{file} is not a template: choose another name")
    if part in document["prompt"]:
        raise UsageError(f"{file} has prompt.{part} already: choose another name, or delete that section")
    document["prompt"][part] = [dict(message) for message in messages]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))
    return file


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, for people."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
