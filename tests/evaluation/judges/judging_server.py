"""A model server whose model prefers the shorter answer, or does what a test asks of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.serving.gateway.upstream_double import running

_ANSWERS = re.compile(r"<answer_a>\n(.*)\n</answer_a>\n\n<answer_b>\n(.*)\n</answer_b>", re.DOTALL)


@dataclass
class JudgingServer:
    url: str = ""
    reply: str = ""
    """Of every request; empty for the letter of the shorter answer."""
    refusal: str = ""
    failures: list[int] = field(default_factory=list)
    """HTTP states of the next requests."""
    requests: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    """Body and headers."""

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Response:
        self.requests.append((body, headers))
        if self.failures:
            return JSONResponse({"error": {"message": "busy"}}, self.failures.pop(0), {"Retry-After": "0"})
        message = {"role": "assistant", "content": self.reply or shorter(body), "refusal": self.refusal or None}
        return JSONResponse({"choices": [{"message": message}], "usage": {"prompt_tokens": 40, "total_tokens": 45}})


def shorter(body: dict[str, Any]) -> str:
    match = _ANSWERS.search(body["messages"][1]["content"])
    assert match
    return "A" if len(match[1]) < len(match[2]) else "B"


@contextmanager
def judging_server() -> Iterator[JudgingServer]:
    double = JudgingServer()

    async def complete(request: Request) -> Response:
        return double.answer(await request.json(), dict(request.headers))

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    with running(app) as address:
        double.url = f"{address}/v1"
        yield double


def write_judges(path: Path, **judges: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(judges))
    return str(path)
