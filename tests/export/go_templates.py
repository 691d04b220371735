"""Runs the few actions of Go's text/template that Ratchet writes, as Ollama's server would.

Each action is put into Jinja's words, one for one; an action that is not in the table fails the test that used it. Text
between actions is left as it is: neither side trims.
"""

import json
import re
from collections.abc import Sequence

from jinja2 import Environment

from rl.base.records import Message

_ACTIONS = {
    ".Content": "{{ m.content }}",
    "$system": "{{ memory.system }}",
    "$.System": "{{ System }}",
    "$system := .System": "{% set memory = namespace(system=System) %}",
    '$system = ""': "{% set memory.system = '' %}",
    "range .Messages": "{% for m in Messages %}",
    "range $i, $message := .Messages": "{% for m in Messages %}",
    "if not .System": "{% if not System %}",
    "if $system": "{% if memory.system %}",
    "if and $.System (eq (len (slice $.Messages $i)) 1)": "{% if System and Messages[loop.index0:] | length == 1 %}",
    'if eq .Role "user"': "{% if m.role == 'user' %}",
    'else if eq .Role "system"': "{% elif m.role == 'system' %}",
    'else if eq .Role "assistant"': "{% elif m.role == 'assistant' %}",
}


def render(template: str, chat: Sequence[Message]) -> str:
    """What Ollama sends to the model for a chat in which no two neighbours have the same role."""
    jinja, opened = [], []
    for position, part in enumerate(re.split(r"\{\{ (.*?) \}\}", template, flags=re.DOTALL)):
        if position % 2 == 0:
            assert "{" not in part, f"a brace outside an action: {part!r}"
            jinja.append(part)
        elif part == "end":
            jinja.append("{% endfor %}" if opened.pop() == "range" else "{% endif %}")
        elif part.startswith('"'):
            jinja.append("{{ " + repr(json.loads(part)) + " }}")
        else:
            opened += [word for word in ("range", "if") if part.startswith(f"{word} ")]
            jinja.append(_ACTIONS[part])
    assert opened == []
    system = "\n\n".join(message["content"] for message in chat if message["role"] == "system")
    environment = Environment(keep_trailing_newline=True)
    return environment.from_string("".join(jinja)).render(Messages=chat, System=system)
