"""``{{ item.answer }}`` and ``{{ sample.output_text }}`` in the texts of a grader."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from rl.from_systems.openai_tuning.graders.failures import GradingFailed

LONGEST: Final = 2**18
"""Characters of a text after its variables were filled in."""
OF_SAMPLE: Final = ("output_text", "output_json", "output_tools", "choices")
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_VARIABLE = re.compile(r"\s*(item|sample)((?:\.[\w-]+|\[\d+\])+)\s*")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")
Variables = Mapping[str, Any]


def variables_of(item: Any, sample_text: str) -> dict[str, Any]:
    """``output_json`` is None unless the sample is JSON."""
    try:
        parsed = json.loads(sample_text)
    except (ValueError, RecursionError):
        parsed = None
    message = {"role": "assistant", "content": sample_text}
    sample = {
        "output_text": sample_text,
        "output_json": parsed,
        "output_tools": [],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    return {"item": item, "sample": sample}


def check(text: str) -> None:
    """Raises ValueError for what cannot be a variable, whatever the item holds."""
    for match in _TEMPLATE.finditer(text):
        variable = _VARIABLE.fullmatch(match[1])
        if not variable:
            raise ValueError(
                f"{match[0][:100]!r} is not a variable; write {{{{ item.NAME }}}} or {{{{ sample.NAME }}}}"
            )
        first = _STEP.match(variable[2])
        if variable[1] == "sample" and first and first[1] not in OF_SAMPLE:
            raise ValueError(f"{match[0][:100]!r} is not a variable of the sample, which has {', '.join(OF_SAMPLE)}")


def fill(text: str, variables: Variables) -> str:
    """The text with its variables filled in; what is not text is written as JSON. Raises GradingFailed."""
    parts, length, start = [], 0, 0
    for match in _TEMPLATE.finditer(text):
        parts += [text[start : match.start()], _value(match[1], variables)]
        length, start = length + len(parts[-2]) + len(parts[-1]), match.end()
        if length > LONGEST:
            raise GradingFailed("other_error", f"a text is longer than {LONGEST:,} characters")
    return "".join(parts) + text[start:]


def _value(written: str, variables: Variables) -> str:
    variable = _VARIABLE.fullmatch(written)
    if not variable:
        raise GradingFailed("invalid_variable_error")
    value: Any = variables[variable[1]]
    for name, number in _STEP.findall(variable[2]):
        try:
            value = value[int(number or name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, TypeError, ValueError):
            is_json = variable[2].startswith(".output_json") and variables["sample"]["output_json"] is None
            raise GradingFailed("sample_parse_error" if is_json else "invalid_variable_error") from None
    if value is None and variable[1] == "sample":
        raise GradingFailed("sample_parse_error")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
