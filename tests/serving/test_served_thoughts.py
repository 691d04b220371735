"""What a model of ours thinks, as a real llama.cpp server tells it: a grammar makes it say so, in the marks of training."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import Qwen2Config

from rl.base.manner import Manner
from rl.base.records import silent
from rl.base.template_settings import template_settings
from rl.export.gguf.export import convert
from rl.lm.encoding import answer_form
from rl.lm.loading import load_tokenizer
from rl.models import Agent, Artifact, Deployment, ModelVersion
from rl.serving.deploy import deploy
from rl.serving.gateway.answer import Answer
from rl.serving.gateway.exchange import columns_of
from rl.serving.upstreams import upstream_of
from rl.serving.withdrawal import take_down
from rl.versions.versions import artifact_fields
from tests.export.tiny_models import build_model, byte_level_tokenizer
from tests.training.chatting import template

pytestmark = pytest.mark.learn
SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
ASKED = [{"role": "user", "content": "Where?"}]


@pytest.fixture(params=["qwen3", "qwen3_5_think", "gemma4"])
def served(request: pytest.FixtureRequest, agent: Agent, data_dir: Path) -> Iterator[tuple[Deployment, Path]]:
    """A version of a tiny model, and the folder of its base."""
    model = byte_level_tokenizer("qwen2")
    marks = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|channel>", "<channel|>", "<|turn>", "<turn|>")
    model.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in marks])
    model.chat_template = template(request.param)
    config = Qwen2Config(**SIZES, num_key_value_heads=1, tie_word_embeddings=True)
    base = build_model(data_dir / "base", config, model)
    file = data_dir / "models" / agent.name / "v1" / "v1.gguf"
    file.parent.mkdir(parents=True)
    convert(base, file, "f16", "tiny", silent)
    version = ModelVersion.objects.create(
        agent=agent, name="v1", base_model="tiny", feedback_count=1, stage=ModelVersion.Stage.EXPORTED
    )
    Artifact.objects.create(version=version, kind="gguf", quantization="q8_0", **artifact_fields(file))
    deployment = deploy(agent, version, target="llama_cpp")
    yield deployment, base
    take_down(deployment)


def pieces(deployment: Deployment, **body: Any) -> list[dict[str, Any]]:
    """The chunks of a stream, or the one completion."""
    upstream = upstream_of(deployment)
    document = {"messages": ASKED, "chat_template_kwargs": template_settings(True), "max_tokens": 100, **body}
    headers = {"Content-Type": "application/json", **upstream.headers}
    request = urllib.request.Request(f"{upstream.base_url}/chat/completions", json.dumps(document).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(event) for event in events or [text]]


def test_thoughts_in_the_marks_of_training_are_stored_as_thoughts_and_not_as_the_answer(
    served: tuple[Deployment, Path],
):
    deployment, base = served
    form = answer_form(load_tokenizer(str(base), Manner(True)))
    assert form.thought is not None
    before, behind = form.thought
    grammar = f"root ::= {json.dumps(f'{before}Hm, a map.{behind}In Bonn.', ensure_ascii=False)}"
    for more in ({}, {"stream": True}):
        answer = Answer()
        for piece in pieces(deployment, grammar=grammar, **more):
            answer.take(piece)
        columns = columns_of(answer)
        assert columns["response"] == "In Bonn."
        assert [step["content"].strip() for step in columns["reasoning_steps"]] == ["Hm, a map."]
