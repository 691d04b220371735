"""Vectors of texts in OpenAI's form, by the servers of EMBEDDING_MODELS. Nothing of them is stored."""

import asyncio
import math
from base64 import b64encode
from itertools import chain
from struct import error, pack
from typing import Any, Final

from django.conf import settings
from starlette.requests import Request
from starlette.responses import Response

from rl.models import ApiKey
from rl.serving.gateway.chat_request import read_object
from rl.serving.gateway.gateway import Gateway
from rl.serving.gateway.packed_body import read_packed
from rl.serving.gateway.refusals import Refusal, broken_upstream, json_response
from rl.serving.gateway.routing import Served
from rl.serving.gateway.upstream import call
from rl.serving.machine import note_request
from rl.serving.upstreams import Upstream

MOST_TEXTS: Final = 256
ENCODINGS: Final = ("float", "base64")


async def embeddings(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    await gateway.caller(request, ApiKey.Scope.INGEST)
    sent = read_object(await read_packed(request))
    served, texts, encoding = _server_of(sent.get("model")), _texts_of(sent.get("input")), _encoding_of(sent)
    note_request()
    asked = {"model": served.reached.model, "input": texts, "encoding_format": "float"}
    document = await call(gateway.client, served, f"{served.reached.base_url}/embeddings", asked)
    return await asyncio.to_thread(write_vectors, served.version, document, len(texts), encoding)


def _server_of(model: object) -> Served:
    address = settings.EMBEDDING_MODELS.get(model) if isinstance(model, str) else None
    if address is None:
        known = ", ".join(settings.EMBEDDING_MODELS) or "none"
        message = f"model must be an embedding model of this site; its EMBEDDING_MODELS: {known}"
        raise Refusal(404, message, param="model", code="model_not_found")
    return Served(None, str(model), Upstream(f"{address}/v1", str(model)))


def _texts_of(given: object) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
        raise _wrong("input", f"must be a text or a list of 1 to {MOST_TEXTS} texts")
    if not all(isinstance(text, str) and text for text in texts):
        raise _wrong("input", "must be texts that are not empty; numbers of tokens are not taken")
    return texts


def _encoding_of(sent: dict[str, Any]) -> str:
    if sent.get("dimensions") is not None:
        raise _wrong("dimensions", "cannot be chosen: leave it out, and a vector is as long as the model makes it")
    if (encoding := sent.get("encoding_format") or "float") not in ENCODINGS:
        raise _wrong("encoding_format", f"must be one of {', '.join(ENCODINGS)}")
    return str(encoding)


def _wrong(field: str, problem: str) -> Refusal:
    return Refusal(400, f"{field} {problem}", param=field, code="invalid_value")


def write_vectors(model: str, document: dict[str, Any], count: int, encoding: str) -> Response:
    """Raises Refusal where the server has not given a vector for each text."""
    try:
        rows = sorted(document["data"], key=lambda row: row["index"])
        vectors = [list(map(float, row["embedding"])) for row in rows]
        packed = [pack(f"<{len(vector)}f", *vector) for vector in vectors]
        tokens = int(document.get("usage", {}).get("prompt_tokens", 0))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, error):
        vectors = []
    lengths = {len(vector) for vector in vectors}
    if len(vectors) != count or len(lengths) != 1 or not all(map(math.isfinite, chain(*vectors))):
        raise broken_upstream(model, "did not answer with a vector for each text")
    values = [b64encode(floats).decode() for floats in packed] if encoding == "base64" else vectors
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": model, "usage": usage})
