"""OpenAI's embeddings, with the official client."""

import base64
import struct
from typing import Any

import openai
import pytest

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process


def embed(gateway: Gateway, given: Any, key: str = "all", model: str = "lengths", **options: Any) -> Any:
    return gateway.client(key).embeddings.create(model=model, input=given, **options)


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}, {"user": "anna"}], ids=str)
def test_each_text_gets_its_vector_in_either_encoding(
    gateway: Gateway, upstream: UpstreamDouble, options: dict[str, Any]
):
    """The client asks for base64 unless it is told otherwise."""
    made = embed(gateway, ["Where?", "On the van."], **options)
    assert [(row.index, row.embedding) for row in made.data] == [(0, [6.0, 0.5]), (1, [11.0, 0.5])]
    assert (made.object, made.model, made.usage.prompt_tokens, made.usage.total_tokens) == ("list", "lengths", 7, 7)
    assert upstream.last == {"model": "lengths", "input": ["Where?", "On the van."], "encoding_format": "float"}


def test_one_text_may_stand_alone_and_base64_is_of_little_ended_floats(gateway: Gateway):
    raw = gateway.client().embeddings.with_raw_response.create(
        model="lengths", input="Where?", encoding_format="base64"
    )
    (row,) = raw.http_response.json()["data"]
    assert struct.unpack("<2f", base64.b64decode(row["embedding"])) == (6.0, 0.5)


WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "input must be a text or a list of 1 to 256": ([], {}),
    "a list of 1 to 256 texts": (["a"] * 257, {}),
    "numbers of tokens are not taken": ([[1, 2]], {}),
    "texts that are not empty": (["a", ""], {}),
    "dimensions cannot be chosen": ("a", {"dimensions": 3}),
    "encoding_format must be one of float, base64": ("a", {"encoding_format": "int8"}),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_embedded_is_refused_with_its_reason(gateway: Gateway, message: str):
    given, options = WRONG[message]
    with pytest.raises(openai.BadRequestError, match=message) as error:
        embed(gateway, given, **options)
    assert error.value.param in ("input", *options)


def test_a_model_that_the_operator_does_not_name_is_not_there(gateway: Gateway):
    with pytest.raises(openai.NotFoundError, match="EMBEDDING_MODELS: lengths"):
        embed(gateway, "a", model="support-chat")


def test_a_key_that_may_only_read_gets_none(gateway: Gateway):
    with pytest.raises(openai.PermissionDeniedError, match="scope 'ingest'"):
        embed(gateway, "a", key="reader")


def test_what_its_server_refuses_or_leaves_out_is_an_error(gateway: Gateway):
    with pytest.raises(openai.BadRequestError, match="too long"):
        embed(gateway, ["too long"])
    with pytest.raises(openai.InternalServerError, match="did not answer with a vector for each text") as error:
        embed(gateway, ["a", "too few"])
    assert error.value.status_code == 502


def test_nothing_is_stored(gateway: Gateway):
    before = gateway.site.query("SELECT count(*) FROM rl_trace")
    embed(gateway, "Keep nothing of it.")
    assert gateway.site.query("SELECT count(*) FROM rl_trace WHERE prompt LIKE '%Keep nothing of it.%'") == [(0,)]
    assert gateway.site.query("SELECT count(*) FROM rl_trace") >= before
