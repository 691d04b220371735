"""Questions that are answered by looking things up."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rl.base.records import Message
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, ToolRequest
from rl.environments.tasks.records import SearchTask
from rl.environments.tools import BaseTool
from rl.environments.tools.search import SearchDocuments

_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[,'\u00a0\u2009\u202f\u2019]\d{3})+(?!\d)")
"""A number as people write it: 5,895."""


class SearchEnv(AgentEnv):
    """Tasks: ``question``, ``answer``, and the ``documents`` to search where the tool has none of its own. An answer is
    right when it contains the expected one, whatever the case of the letters and the marks between thousands.
    ``info["search_history"]`` has what was searched for."""

    name = "search"
    tasks = SearchTask
    system_prompt = (
        "You answer questions. Look up what you do not know with the tool search; then answer in one sentence."
    )

    def __init__(
        self, tools: tuple[BaseTool, ...] | None = None, *, timeout_penalty: float = -0.1, **settings: Any
    ) -> None:
        super().__init__((SearchDocuments(),) if tools is None else tools, timeout_penalty=timeout_penalty, **settings)

    def reset(self, task: Mapping[str, Any]) -> list[Message]:
        for corpus in self.tools.of_kind(SearchDocuments):
            corpus.use(task.get("documents") or ())
        return super().reset(task)

    def prompt(self, task: Mapping[str, Any]) -> str:
        return str(task["question"])

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:
        """Searches for ``metadata.query``, else for the question, then says the first document that has the answer, else the
        answer alone."""
        query, answer = (task.get("metadata") or {}).get("query") or task["question"], str(task["answer"])
        solution = next((text for text in task.get("documents") or () if _plain(answer) in _plain(text)), answer)
        return Action("", (ToolRequest("search", {"query": query}),)), Action(solution)

    def judge(self, answer: str) -> Judgement:
        return judge_by_content(answer, str(self.task["answer"]))

    def _info(self) -> dict[str, Any]:
        queries = [call.arguments.get("query", "") for call in self.calls if call.tool_name == "search"]
        return {**super()._info(), "search_history": queries}


def judge_by_content(answer: str, expected: str) -> Judgement:
    """Success for an answer that contains the expected one, whatever the case of the letters and the marks between
    thousands."""
    if _plain(expected) in _plain(answer):
        return Judgement(True, "the answer contains what was expected")
    return Judgement(False, "the answer does not contain what was expected", details={"expected": expected})


def _plain(text: str) -> str:
    """Case, runs of white space and the marks between thousands tell nothing apart."""
    plain_numbers = _THOUSANDS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    return " ".join(plain_numbers.casefold().split())
