"""OpenAI's older completions."""

import json
from uuid import uuid4

from rl.serving.dialects.chat import COMPLETIONS
from rl.serving.dialects.dialect import AnswerHead


def logprobs_of(token):
    top = {"token": token, "logprob": -0.5}
    return {"content": [{**top, "top_logprobs": [top]}]}


def test_offsets_of_tokens_go_on_in_a_stream_behind_what_is_echoed():
    head = AnswerHead(uuid4(), "a@v1", 1, {"messages": [{"role": "user", "content": "Once"}]}, {"echo": True})
    stream = COMPLETIONS.stream(head)
    texts, offsets = [], []
    for token in (" upon", " a", " time"):
        written = stream.write({"choices": [{"index": 0, "delta": {"content": token}, "logprobs": logprobs_of(token)}]})
        (choice,) = json.loads(written.removeprefix(b"data: "))["choices"]
        texts.append(choice["text"])
        offsets += choice["logprobs"]["text_offset"]
        assert choice["logprobs"]["tokens"] == [token]
        assert choice["logprobs"]["top_logprobs"] == [{token: -0.5}]
    assert (texts, offsets) == (["Once upon", " a", " time"], [4, 9, 11])
