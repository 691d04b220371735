"""As many answers as a client asks for, of a server of ours: a request each."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rl.serving.gateway.best_of import answer_all, wants_several
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.turns import Turns
from tests.serving.gateway.test_turns import exchange as of_caller

pytestmark = pytest.mark.usefixtures("data_dir")


class FormsDouble:
    """Answers by the seed; refuses that with the seed ``broken``."""

    def __init__(self, broken: int | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._broken = broken

    async def complete(self, exchange: Exchange) -> dict[str, Any]:
        sent = exchange.request.document
        self.asked.append(sent)
        await asyncio.sleep(0)
        if sent["seed"] == self._broken:
            raise Refusal(502, "the server broke")
        message = {"role": "assistant", "content": f"seed {sent['seed']}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}


def asks_for(number: int, *, is_ours: bool = True) -> Exchange:
    made = of_caller(1)
    upstream = replace(made.route.served.reached, server=1 if is_ours else None)
    served = replace(made.route.served, upstream=upstream)
    request = ChatRequest({"n": number, "seed": 3, "messages": []}, "chat", (), "", "")
    return replace(made, request=request, route=replace(made.route, served=served))


def test_each_is_a_request_and_all_are_choices_of_one_completion():
    asked, forms = asks_for(3), FormsDouble()
    completion = asyncio.run(answer_all(forms, Turns(), asked))  # type: ignore[arg-type]
    assert [(choice["index"], choice["message"]["content"]) for choice in completion["choices"]] == [
        (0, "seed 3"),
        (1, "seed 4"),
        (2, "seed 5"),
    ]
    assert completion["usage"] == {"prompt_tokens": 7, "completion_tokens": 15, "total_tokens": 22}
    assert ["n" in sent for sent in forms.asked] == [False] * 3
    assert [choice.text for choice in asked.answer.choices.values()] == [["seed 3"], ["seed 4"], ["seed 5"]]


def test_one_that_fails_fails_the_request():
    with pytest.raises(Refusal, match="the server broke"):
        asyncio.run(answer_all(FormsDouble(broken=4), Turns(), asks_for(2)))  # type: ignore[arg-type]


def test_other_servers_give_several_themselves():
    assert wants_several(asks_for(2))
    assert not wants_several(asks_for(1))
    assert not wants_several(asks_for(2, is_ours=False))
