"""Clients of OpenAI's API, without their libraries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from rl.models import Agent, ApiKey

CHATS = b'{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]}\n' * 10


@dataclass(frozen=True, slots=True)
class TuningCaller:
    key: str

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> HttpResponse:
        """``body``: a form where it has a file, else JSON."""
        data: dict[str, Any] = {"data": query} if query else {}
        if body is not None:
            has_file = any(isinstance(value, SimpleUploadedFile) for value in body.values())
            data = {"data": body} if has_file else {"data": json.dumps(body), "content_type": "application/json"}
        headers = {"authorization": f"Bearer {self.key}"}
        answer: HttpResponse = getattr(Client(), method)(f"/v1/{path}", headers=headers, **data)
        return answer

    def send(self, content: bytes = CHATS, name: str = "chats.jsonl", **fields: str) -> HttpResponse:
        return self.call("post", "files", {"purpose": "fine-tune", "file": SimpleUploadedFile(name, content), **fields})

    def sent(self, content: bytes = CHATS, **fields: str) -> Any:
        """A file's fields."""
        answer = self.send(content, **fields)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def part(self, upload: str, content: bytes) -> HttpResponse:
        return self.call("post", f"uploads/{upload}/parts", {"data": SimpleUploadedFile("blob", content)})


def caller(agent: Agent | None = None, scopes: list[str] | None = None) -> TuningCaller:
    scopes = ApiKey.Scope.values if scopes is None else scopes
    return TuningCaller(ApiKey.create(name="tuner", kind=ApiKey.Kind.SECRET, agent=agent, scopes=scopes)[1])


def error_of(answer: HttpResponse, status: int) -> Mapping[str, Any]:
    assert answer.status_code == status, answer.content
    document = json.loads(answer.content)
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"message", "type", "param", "code"}
    error: dict[str, Any] = document["error"]
    return error


def on_disk(data_dir: Path) -> set[str]:
    """Files, and folders of parts that have any."""
    folder = data_dir / "files"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
