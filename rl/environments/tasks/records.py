"""Programming tasks and search tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

from rl.environments.tasks.replay_fields import (
    FieldProblem,
    FieldRule,
    an_object,
    anything,
    describe_field,
    json_kind,
    problems,
    replay_problems,
    text,
    texts,
    words,
)

MOST_SECONDS = 600.0
"""The most seconds that one test may take."""


class Task(Protocol):
    @property
    def task_id(self) -> str: ...

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        """What keeps a line's value from being such a task."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """``row`` has no problems."""

    def as_mapping(self) -> dict[str, Any]:
        """JSON: the row that it was read from, less what was empty. ``Environment.reset`` takes it."""


@dataclass(frozen=True, slots=True)
class CodeTest:
    output: str
    """What the program must print, apart from white space at both ends."""
    input: str = ""
    """Its stdin."""
    description: str = ""
    timeout: float | None = None
    """Seconds; None is the environment's own."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**_drop_nulls(row))

    def as_mapping(self) -> dict[str, Any]:
        optional = {"description": self.description, "timeout": self.timeout}
        return {"input": self.input, "output": self.output, **_drop_empty(optional)}


@dataclass(frozen=True, slots=True)
class CodeTask:
    task_id: str
    prompt: str
    tests: tuple[CodeTest, ...] = ()
    """None where the text of ``reference_solution`` in what a tool returns marks success."""
    starter_code: str = ""
    reference_solution: str = ""
    """A whole program, or a text that marks success; no environment shows it."""
    ground_truth: Any = None
    """Any JSON; a program there is demonstrated where ``reference_solution`` is not one."""
    language: str = ""
    """python, or empty, which says the same."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        yield from problems(row, CODE_FIELDS)
        if not isinstance(row, dict):
            return
        tests = row.get("tests")
        if tests in (None, []) and not str(row.get("reference_solution") or "").strip():
            yield FieldProblem(
                describe_field("tests", ""), "is missing" if tests is None else "must have at least one test"
            )
        for number, test in enumerate(tests if isinstance(tests, list) else (), start=1):
            yield from problems(test, TEST_FIELDS, f"test {number}")

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{**_drop_nulls(row), "tests": tuple(map(CodeTest.from_row, row.get("tests") or ()))})

    def as_mapping(self) -> dict[str, Any]:
        optional = {
            "tests": [test.as_mapping() for test in self.tests],
            "language": self.language,
            "starter_code": self.starter_code,
            "reference_solution": self.reference_solution,
            "ground_truth": self.ground_truth,
            "metadata": dict(self.metadata),
        }
        return {"task_id": self.task_id, "prompt": self.prompt, **_drop_empty(optional)}

    to_env_task = as_mapping


@dataclass(frozen=True, slots=True)
class SearchTask:
    task_id: str
    question: str
    answer: str
    documents: tuple[str, ...] = ()
    """What there is to search; none where the tool has documents of its own."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        return problems(row, SEARCH_FIELDS)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{**_drop_nulls(row), "documents": tuple(row.get("documents") or ())})

    def as_mapping(self) -> dict[str, Any]:
        optional = {"documents": list(self.documents), "metadata": dict(self.metadata)}
        return {"task_id": self.task_id, "question": self.question, "answer": self.answer, **_drop_empty(optional)}

    to_env_task = as_mapping


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """An answer is judged by ``environment``, or by ``accepted``: one of them is there."""

    task_id: str
    prompt: tuple[Mapping[str, str], ...]
    """Messages; one or more."""
    recorded: tuple[Mapping[str, Any], ...]
    """Calls of tools, as a ToolCall has them; one or more."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Schemas; none where they are to be made from the recorded calls."""
    environment: str = ""
    """The environment that the task comes from."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """The task as that environment had it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of that environment."""
    accepted: tuple[str, ...] = ()
    """Answers that people liked or wrote."""
    solution: tuple[Any, ...] = ()
    """Turns that lead to success: lists of calls, and last the answer, a text."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        return replay_problems(row)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        present: dict[str, Any] = _drop_nulls(row)
        for name, value in present.items():
            present[name] = tuple(value) if isinstance(value, list) else value
        return cls(**present)

    def as_mapping(self) -> dict[str, Any]:
        lists = ("prompt", "recorded", "tools", "accepted", "solution")
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return _drop_empty({name: list(value) if name in lists else value for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class AnyTask:
    """A task of an environment that says nothing of its tasks' fields."""

    task_id: str
    row: Mapping[str, Any]

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        return problems(row, ANY_FIELDS, others=True)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(row["task_id"], row)

    def as_mapping(self) -> dict[str, Any]:
        return dict(self.row)


@dataclass(frozen=True, slots=True)
class PromptTask(AnyTask):
    """A task with a ``prompt``. A program reads the other fields, and nothing is said of them either."""

    @staticmethod
    def problems(row: Any) -> Iterator[FieldProblem]:
        return problems(row, PROMPT_FIELDS, others=True)


def _drop_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    """Null says the same as nothing."""
    return {name: value for name, value in row.items() if value is not None}


def _drop_empty(optional: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in optional.items() if value not in (None, "", [], {})}


def _seconds(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 0 < value <= MOST_SECONDS:
        return ""
    return f"must be a positive number of seconds, at most {MOST_SECONDS:g}, not {value!r:.50}"


def _tests(value: Any) -> str:
    """What is wrong with the list as a whole."""
    if not isinstance(value, list):
        return f"must be a list of tests, not {json_kind(value)}"
    silent = value and all(isinstance(test, dict) and not str(test.get("output", "?")).strip() for test in value)
    return "has no test that expects output, so every program would pass" if silent else ""


CODE_FIELDS: Mapping[str, FieldRule] = {
    "task_id": FieldRule(words, required=True),
    "prompt": FieldRule(words, required=True),
    "starter_code": FieldRule(text),
    "tests": FieldRule(_tests),
    "language": FieldRule(lambda value: "" if value in ("python", "") else f"must be python, not {value!r:.50}"),
    "reference_solution": FieldRule(text),
    "ground_truth": FieldRule(anything),
    "metadata": FieldRule(an_object),
}
TEST_FIELDS: Mapping[str, FieldRule] = {
    "input": FieldRule(text),
    "output": FieldRule(text, required=True),
    "description": FieldRule(text),
    "timeout": FieldRule(_seconds),
}
SEARCH_FIELDS: Mapping[str, FieldRule] = {
    "task_id": FieldRule(words, required=True),
    "question": FieldRule(words, required=True),
    "answer": FieldRule(words, required=True),
    "documents": FieldRule(texts),
    "metadata": FieldRule(an_object),
}
ANY_FIELDS = {"task_id": SEARCH_FIELDS["task_id"]}
PROMPT_FIELDS = {**ANY_FIELDS, "prompt": FieldRule(words, required=True)}
