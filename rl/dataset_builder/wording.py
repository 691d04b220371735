"""Which templates an agent's prompts and answers are written with: Ratchet's, another system's, or the operator's files.

A file of PROMPT_TEMPLATES_DIR is a template under its own name: ``prompt`` and ``answer``, each with ``widgets`` and
``fixture``, as ``rl.data_formatter.wording.written`` reads them."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.leaves import import_name
from rl.base.names import unknown_name
from rl.base.records import Message
from rl.data_formatter.wording import ANSWER_TEMPLATES, PROMPT_TEMPLATES, ask_for_decision
from rl.data_formatter.wording.contract import AnswerTemplate, PromptTemplate, Wording
from rl.data_formatter.wording.written import WrittenAnswers, WrittenPrompts
from rl.environments.config_file import Document, read_document
from rl.models import Agent

DEFAULT = "plain"
WIDGETS, FIXTURE = "widgets", "fixture"
Part = Literal["prompt", "answer"]


def wording_of(agent: Agent) -> Wording:
    """Raises UsageError for a name that stands for no template, and BadFile for the operator's file."""
    return Wording(
        find_prompt_template(agent.prompt_template or DEFAULT), find_answer_template(agent.answer_template or DEFAULT)
    )


def ask_agent(agent: Agent, prompt: Sequence[Message]) -> tuple[Message, ...]:
    """A stored prompt as the model reads it when the agent is served: behind the agent's system prompt, where it has none of
    its own; where it is the state of a decision, in the words of its type, unless the template is ``plain``."""
    rules = agent.system_prompt
    asked = tuple(prompt) if agent.prompt_template == DEFAULT else ask_for_decision(agent.name, prompt, rules)
    if not rules or any(message["role"] == "system" for message in asked):
        return asked
    return (Message(role="system", content=rules), *asked)


def find_prompt_template(name: str) -> PromptTemplate:
    """Raises UsageError and BadFile."""
    if name in PROMPT_TEMPLATES:
        return cast("PromptTemplate", import_name(PROMPT_TEMPLATES[name]))
    document = _document(name, "prompt")
    section = document.section("prompt", (WIDGETS, FIXTURE))
    try:
        return WrittenPrompts(*(tuple(_messages(section.get(part, []), part)) for part in (WIDGETS, FIXTURE)))
    except UsageError as error:
        raise document.refusal_about(str(error), ("prompt",)) from None


def find_answer_template(name: str) -> AnswerTemplate:
    """Raises UsageError and BadFile."""
    if name in ANSWER_TEMPLATES:
        return cast("AnswerTemplate", import_name(ANSWER_TEMPLATES[name]))
    document = _document(name, "answer")
    section = document.section("answer", [field.name for field in fields(WrittenAnswers)])
    if wrong := [part for part, value in section.items() if not isinstance(value, str)]:
        raise document.refusal(f"answer.{wrong[0]} must be a text", ("answer", wrong[0]))
    try:
        return WrittenAnswers(**section)
    except UsageError as error:
        raise document.refusal_about(str(error), ("answer",)) from None


def template_names(part: Part) -> list[str]:
    """What an agent may have. A file that is written wrongly is listed, and refused where it is used."""
    registered = PROMPT_TEMPLATES if part == "prompt" else ANSWER_TEMPLATES
    return [*registered, *(name for name in template_files() if name not in registered)]


def template_files() -> dict[str, Path]:
    """Name to file; the name is the file's, without its ending."""
    folder = settings.PROMPT_TEMPLATES_DIR
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))} if folder.is_dir() else {}


def _document(name: str, part: Part) -> Document:
    files = template_files()
    if name not in files:
        where = "the operator writes others as files of PROMPT_TEMPLATES_DIR"
        raise UsageError(f"{unknown_name(f'{part} template', name, template_names(part))}; {where}")
    document = read_document(files[name])
    document.require_known(document.values, ("prompt", "answer"))
    if part not in document.values:
        raise document.refusal(f"has no section {part}, and an agent has it as its {part} template")
    return document


def _messages(value: Any, name: str) -> Iterable[Message]:
    """Text stands for one user message."""
    rows = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(rows, list):
        raise UsageError(f"{name} must be a text, or a list of messages with role and content")
    for row in rows:
        of_texts = isinstance(row, dict) and all(isinstance(text, str) for text in row.values())
        if not of_texts or row.keys() != {"role", "content"}:
            raise UsageError(f"{name}: each message has role and content, both texts")
        if row["role"] not in ("system", "user", "assistant"):
            raise UsageError(f"{name}: role must be system, user or assistant, not {row['role']!r:.50}")
        yield Message(role=row["role"], content=row["content"])
