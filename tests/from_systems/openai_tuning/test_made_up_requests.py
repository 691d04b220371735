"""Requests that schemathesis makes up from the types of OpenAI's own client, valid and broken: each is answered by what that
client's types have, or refused by an error that it reads."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import settings
from openai.types import Upload
from openai.types.fine_tuning import FineTuningJob
from openai.types.fine_tuning.alpha.grader_run_params import GraderRunParams
from openai.types.fine_tuning.alpha.grader_validate_params import GraderValidateParams
from openai.types.fine_tuning.job_create_params import JobCreateParams
from openai.types.upload_complete_params import UploadCompleteParams
from openai.types.upload_create_params import UploadCreateParams
from pydantic import TypeAdapter

from tests.from_systems.openai_tuning.callers import CHATS, caller

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "minLength": 1},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
JOBS, FILES, UPLOADS = "/v1/fine_tuning/jobs", "/v1/files", "/v1/uploads"
BODIES: dict[str, tuple[Any, Any]] = {
    JOBS: (JobCreateParams, FineTuningJob),
    "/v1/fine_tuning/alpha/graders/run": (GraderRunParams, None),
    "/v1/fine_tuning/alpha/graders/validate": (GraderValidateParams, None),
    UPLOADS: (UploadCreateParams, Upload),
    f"{UPLOADS}/{{id}}/complete": (UploadCompleteParams, Upload),
}
"""Address to the types of what is sent to it and of what it answers."""
LISTS = {
    JOBS: ("after", "limit"),
    f"{JOBS}/{{id}}/events": ("after", "limit"),
    f"{JOBS}/{{id}}/checkpoints": ("after", "limit"),
    FILES: ("after", "limit", "order", "purpose"),
}
SINGLE = {
    "get": (f"{JOBS}/{{id}}", f"{FILES}/{{id}}"),
    "post": tuple(f"{JOBS}/{{id}}/{deed}" for deed in ("cancel", "pause", "resume")),
    "delete": (f"{FILES}/{{id}}", "/v1/models/{id}"),
}


def schema_of(kind: Any) -> dict[str, Any]:
    document = TypeAdapter(kind).json_schema() if kind else {"type": "object"}
    return _inline(document, document.pop("$defs", {}))


def _inline(node: Any, known: dict[str, Any]) -> Any:
    """Without references, which lead to the document's own root."""
    if isinstance(node, dict):
        if "$ref" in node:
            return _inline(known[node["$ref"].rpartition("/")[2]], known)
        return {name: _inline(value, known) for name, value in node.items() if name != "discriminator"}
    return [_inline(value, known) for value in node] if isinstance(node, list) else node


def call(path: str, answer: Any = None, body: Any = None, query: tuple[str, ...] = ()) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_of(answer)}}
    refused = {"description": "refused", "content": {"application/json": {"schema": ERROR}}}
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query]
    if "{id}" in path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}})
    sent = {"required": True, "content": {"application/json": {"schema": schema_of(body)}}} if body else None
    return {
        "parameters": parameters,
        "responses": {"200": {"description": "done", "content": content}, "4XX": refused},
        **({"requestBody": sent} if sent else {}),
    }


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {
        path: {"post": call(path, answer, body)} for path, (body, answer) in BODIES.items()
    }
    for path, names in LISTS.items():
        paths.setdefault(path, {})["get"] = call(path, query=names)
    form = {
        "type": "object",
        "properties": {"purpose": {"type": "string"}, "file": {"type": "string", "format": "binary"}},
    }
    paths[FILES]["post"] = {**call(FILES), "requestBody": {"content": {"multipart/form-data": {"schema": form}}}}
    for method, addresses in SINGLE.items():
        for path in addresses:
            paths.setdefault(path, {})[method] = call(path)
    return {"openapi": "3.1.0", "info": {"title": "fine-tuning", "version": "1"}, "paths": paths}


CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 20261130,
        "generation": {"max-examples": 5, "deterministic": True, "with-security-parameters": False},
        "checks": {
            "positive_data_acceptance": {"enabled": False},  # a name must be of something that is there
            "negative_data_rejection": {"enabled": False},  # what the types leave open is taken
            "unsupported_method": {"enabled": False},
        },
    }
)
SCHEMA = schemathesis.openapi.from_dict(document(), config=CONFIG)
SCHEMA.app = WSGIHandler()


@SCHEMA.hook
def filter_case(context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
    """Whoever names another host speaks to another site."""
    return "host" not in {name.lower() for name in case.headers or {}}


@pytest.fixture
def authorization(data_dir) -> dict[str, str]:
    made = caller()
    made.sent(CHATS)
    return {"Authorization": f"Bearer {made.key}"}


@pytest.fixture(autouse=True)
def _one_connection(authorization: dict[str, str]) -> Iterator[None]:
    """The server would close that of the test's transaction after each request; a test's client turns that on again."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@SCHEMA.parametrize()
@settings(max_examples=20)
def test_every_answer_is_one_that_the_client_reads(case: schemathesis.Case, authorization: dict[str, str]):
    cache.clear()
    case.call_and_validate(headers=authorization)
