"""What a grader may hold: the fields of each type, as OpenAI's clients send them."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from rl.base.errors import BadFile, UsageError
from rl.base.names import unknown_name
from rl.config.fields import wrong_type
from rl.evaluation.judges.servers import find_server
from rl.from_systems.openai_tuning.graders import formula, templates
from rl.from_systems.openai_tuning.graders.failures import GraderInvalid
from rl.from_systems.openai_tuning.graders.similarity import METRICS

LONGEST_TEXT, LONGEST_NAME, MOST_IN_LIST, MOST_GRADERS = 2**16, 256, 100, 20
MOST_SOURCE: Final = 256 * 2**10
"""Bytes of a program."""
ROLES: Final = ("system", "developer", "user", "assistant")
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NOT_HERE: Final = {"cosine": "embeddings", "meteor": "a dictionary of synonyms"}
"""Metric of OpenAI's to what it needs and is not here."""
Check = Callable[[Any, str], Any]
"""``check(value, path)`` gives the value as it is kept. Raises GraderInvalid."""
Checks = Mapping[str, Check]


def validate(grader: Any, param: str = "grader") -> dict[str, Any]:
    """The grader with all that it leaves to defaults. Raises GraderInvalid."""
    kind = _choice(TYPES, _of_type(Mapping[str, Any], grader, param).get("type"), f"{param}.type")
    required, optional = TYPES[kind]
    fields = {name: value for name, value in grader.items() if name != "type"}
    kept = {"type": kind, **DEFAULTS.get(kind, {}), **_fields({**required, **optional}, fields, param)}
    for name in required:
        if name not in kept:
            raise GraderInvalid(f"{param}.{name}", f"a grader of type {kind} needs it")
    if kind == "multi":
        _blame(formula.check, f"{param}.calculate_output", kept["calculate_output"], kept["graders"])
    for label in kept.get("passing_labels", ()):
        _choice(kept["labels"], label, f"{param}.passing_labels")
    return kept


def _fields(checks: Checks, values: Any, path: str) -> dict[str, Any]:
    """Those that are given; a null is as good as none."""
    kept = {}
    for name, value in _of_type(Mapping[str, Any], values, path).items():
        if name not in checks:
            raise GraderInvalid(f"{path}.{name[:LONGEST_NAME]}", unknown_name("field", name, checks))
        if value is not None:
            kept[name] = checks[name](value, f"{path}.{name}")
    return kept


def _of_type(hint: Any, value: Any, path: str, bounds: tuple[float, float] | None = None) -> Any:
    if right := wrong_type(value, hint, bounds):
        raise GraderInvalid(path, f"must be {right}")
    return value


def _blame(check: Callable[..., Any], path: str, *values: Any) -> Any:
    try:
        return check(*values)
    except (ValueError, SyntaxError, RecursionError, MemoryError, UsageError, BadFile) as error:
        raise GraderInvalid(path, str(error) or type(error).__name__) from None


def _text(value: Any, path: str, most: int = LONGEST_TEXT, fewest: int = 0) -> str:
    if not (isinstance(value, str) and fewest <= len(value) <= most):
        raise GraderInvalid(path, f"must be a text of {fewest} to {most:,} characters")
    return value


_name = partial(_text, most=LONGEST_NAME, fewest=1)


def _template(value: Any, path: str) -> str:
    _blame(templates.check, path, _text(value, path))
    return str(value)


def _choice(known: Collection[str], value: Any, path: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise GraderInvalid(path, unknown_name("value", value, known))
    return value


def _metric(value: Any, path: str) -> str:
    if need := NOT_HERE.get(str(value)):
        raise GraderInvalid(path, f"{value} needs {need}, and is not computed here; use {', '.join(METRICS)}")
    return _choice(METRICS, value, path)


def _range(value: Any, path: str) -> list[float]:
    low, high = (float(_of_type(float, end, path)) for end in _list(value, path, 2, 2))
    if low >= high:
        raise GraderInvalid(path, f"the lowest score must be below the highest, not {low:g} and {high:g}")
    return [low, high]


def _list(value: Any, path: str, most: int = MOST_IN_LIST, fewest: int = 1) -> list[Any]:
    if not (isinstance(value, list) and fewest <= len(value) <= most):
        raise GraderInvalid(path, f"must be a list of {fewest} to {most} entries")
    return value


def _source(value: Any, path: str) -> str:
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) > MOST_SOURCE:
        raise GraderInvalid(path, f"must be a Python program of at most {MOST_SOURCE // 2**10} KiB")
    _blame(partial(compile, dont_inherit=True), path, value, "grader", "exec")
    return str(value)


def _model(value: Any, path: str) -> str:
    return str(_blame(find_server, path, _name(value, path)).name)


def _labels(value: Any, path: str) -> list[str]:
    return [_name(label, f"{path}[{number}]") for number, label in enumerate(_list(value, path))]


def _messages(value: Any, path: str) -> list[dict[str, Any]]:
    messages = [_fields(_OF_MESSAGE, sent, f"{path}[{number}]") for number, sent in enumerate(_list(value, path))]
    for number, message in enumerate(messages):
        if missing := [name for name in ("role", "content") if name not in message]:
            raise GraderInvalid(f"{path}[{number}].{missing[0]}", "a message needs it")
    return messages


def _content(value: Any, path: str) -> str:
    """Parts become one text."""
    parts = _list(value, path) if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise GraderInvalid(path, "must be text, or parts with text; models read neither images nor sounds here")
    return _template("\n".join(map(str, texts)), path)


def _graders(value: Any, path: str) -> dict[str, Any]:
    """By name. The clients' types have one grader where their guide has an object of several."""
    graders = _of_type(Mapping[str, Any], value, path)
    if isinstance(graders.get("type"), str):
        graders = {str(graders.get("name")): graders}
    if not 0 < len(graders) <= MOST_GRADERS:
        raise GraderInvalid(path, f"must hold 1 to {MOST_GRADERS} graders, not {len(graders)}")
    for name, grader in graders.items():
        if not name.isidentifier() or name in formula.FUNCTIONS or len(name) > LONGEST_NAME:
            raise GraderInvalid(path, f"{name[:100]!r} cannot stand in a formula: use letters, digits and _")
        if isinstance(grader, Mapping) and grader.get("type") == "multi":
            raise GraderInvalid(f"{path}.{name}.type", "a multi grader cannot be part of another")
    return {name: validate(grader, f"{path}.{name}") for name, grader in graders.items()}


SAMPLING: Final[Checks] = {
    "max_completions_tokens": partial(_of_type, int, bounds=(1, 2**20)),
    "reasoning_effort": partial(_choice, EFFORTS),
    "seed": partial(_of_type, int),
    "temperature": partial(_of_type, float, bounds=(0, 2)),
    "top_p": partial(_of_type, float, bounds=(0, 1)),
}
_OF_MESSAGE: Final[Checks] = {
    "role": partial(_choice, ROLES),
    "content": _content,
    "type": partial(_choice, ("message",)),
}
_TEXTS: Final[Checks] = {"name": _name, "input": _template, "reference": _template}
_ASKS: Final[Checks] = {"name": _name, "input": _messages, "model": _model}
_SAMPLED: Final[Checks] = {"sampling_params": partial(_fields, SAMPLING)}
_FOR_EVALS: Final[Checks] = {"pass_threshold": partial(_of_type, float)}
"""Kept, and without effect: a reward is the score itself."""
TYPES: Final[Mapping[str, tuple[Checks, Checks]]] = {
    "string_check": ({**_TEXTS, "operation": partial(_choice, ("eq", "ne", "like", "ilike"))}, {}),
    "text_similarity": ({**_TEXTS, "evaluation_metric": _metric}, _FOR_EVALS),
    "python": ({"name": _name, "source": _source}, {"image_tag": _name, **_FOR_EVALS}),
    "score_model": (_ASKS, {"range": _range, **_SAMPLED, **_FOR_EVALS}),
    "label_model": ({**_ASKS, "labels": _labels, "passing_labels": _labels}, _SAMPLED),
    "multi": ({"name": _name, "graders": _graders, "calculate_output": partial(_text, fewest=1)}, {}),
}
"""Type to the fields that it needs, and those that it may have."""
DEFAULTS: Final = {"score_model": {"range": [0.0, 1.0]}}
