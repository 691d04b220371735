"""Writes chats by one chat template, in a process of its own: a template is a program that came with somebody's model.

Standard input is ``{"template", "variables", "clock", "chats": [{"messages", "tools", "add_generation_prompt"}]}``, standard
output a list of ``{"text"}`` and ``{"refused"}``, one for each chat, or ``{"excess"}`` in place of the list. It is started
by its path, without this package: jinja2 and the standard library alone."""

import json
import resource
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY, CPU_SECONDS, MOST_TEXT = 2**29, 3, 2**24
"""Bytes, seconds, and characters of a chat. Real templates take some milliseconds."""
_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: 2**28,
    resource.RLIMIT_CORE: 0,
}


def main() -> None:
    request = json.load(sys.stdin)
    for limit, value in _LIMITS.items():
        with suppress(ValueError, OSError):  # a stricter limit is in force, or this system has no such one
            resource.setrlimit(limit, (value, value))
    try:
        written: Any = _write(**request)
    except MemoryError:
        written = {"excess": "memory"}
    except RecursionError:
        written = {"excess": "levels within each other"}
    json.dump(written, sys.stdout)


def _write(template: str, variables: dict[str, str], clock: bool, chats: list[dict[str, Any]]) -> Any:
    try:
        compiled = _compile(template, clock)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001  Jinja computes what is constant
        return [{"refused": f"it is broken: {error}"}] * len(chats)
    written = []
    for chat in chats:
        try:
            text = compiled.render(**chat, **variables, documents=None)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # noqa: BLE001  whatever a program may do
            written.append({"refused": f"{type(error).__name__}: {error}"})
            continue
        if len(text) > MOST_TEXT:
            return {"excess": "text"}
        written.append({"text": text})
    return written


def _compile(template: str, clock: bool) -> Template:
    """As transformers does. ``clock``: whether the template may ask for the date."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
    )

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = _raise_exception
    if clock:
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # noqa: DTZ005
    return environment.from_string(template)


class _GenerationTag(Extension):
    """``{% generation %}`` marks what was generated, for training; what it encloses is written as it stands."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
