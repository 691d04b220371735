"""OpenAI's older completions of a text, with the official client."""

import openai
import pytest

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process


def test_a_text_is_asked_as_the_message_of_a_user(gateway: Gateway, upstream: UpstreamDouble):
    said = gateway.client().completions.create(model="support-chat", prompt="hello", echo=True, max_tokens=5)
    assert said.choices[0].text == "hellosupport-chat-v2 says hello 0"
    assert (said.object, said.usage.total_tokens) == ("text_completion", 12)
    assert upstream.last["messages"][-1] == {"role": "user", "content": "hello"}
    trace = gateway.trace(said.id.removeprefix("cmpl-"))
    assert trace["response"] == "support-chat-v2 says hello 0"


def test_a_text_is_streamed(gateway: Gateway):
    asked = {"model": "support-chat", "prompt": ["hello"], "stream": True, "echo": True}
    chunks = list(gateway.client().completions.create(**asked, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "hellosupport-chat-v2 says hello\u2028\x85."
    assert (chunks[-2].choices[0].finish_reason, chunks[-1].usage.total_tokens) == ("stop", 12)


@pytest.mark.parametrize(
    ("options", "param"),
    [({"prompt": ["a", "b"]}, "prompt"), ({"prompt": [1, 2]}, "prompt"), ({"suffix": "z"}, "suffix")],
)
def test_what_a_chat_cannot_be_asked_is_refused(gateway: Gateway, options: dict, param: str):
    with pytest.raises(openai.BadRequestError) as refused:
        gateway.client().completions.create(**{"model": "support-chat", "prompt": "hello", **options})
    assert refused.value.param == param
