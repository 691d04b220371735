"""Small tokenizers with the chat templates of real models."""

import re
from functools import cache
from pathlib import Path
from typing import Any

ORDINARY = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Added tokens that are not special, as Qwen's and MiniMind's are."""
_MARKERS = re.compile(
    r"<\|[\w\"]*\|?>|<\w+\|>|<(?:start|end)_of_(?:turn|utterance)>|</?(?:think|tool_call|tool_response|s)>|\[/?[A-Z]{3,}(?:_[A-Z]+)?\]"
)
_ENDS = {
    "llama": "<|eot_id|>",
    "gptoss": "<|return|>",
    "gemma": "<eos>",
    "glm": "<|endoftext|>",
    "phi": "<|endoftext|>",
    "mistral": "</s>",
    "cohere2": "<|END_OF_TURN_TOKEN|>",
}

_MISTRAL_HEAD = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
    "{% set messages = messages[1:] %}{% endif %}{% for message in messages %}"
    "{% if message.role == 'user' %}{% if tools is defined and tools %}[AVAILABLE_TOOLS] {{ tools | tojson }}"
    "[/AVAILABLE_TOOLS]{% endif %}[INST] {% if system is defined and loop.first %}{{ system }}\n\n{% endif %}"
    "{{ message.content }}[/INST]"
)
_MISTRAL_TAIL = "{% else %} {{ message.content | trim }}{{ eos_token }}{% endif %}{% endfor %}"
MISTRAL = {
    "mistral_v3": _MISTRAL_HEAD
    + "{% elif message.tool_calls is defined %}[TOOL_CALLS] [{% for call in message.tool_calls %}"
    "{% if call.id | length != 9 %}{{ raise_exception('nine characters') }}{% endif %}"
    '{{ (call.function | tojson)[:-1] }}, "id": "{{ call.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]'
    "{{ eos_token }}{% elif message.role == 'tool' %}"
    "{% if message.tool_call_id | length != 9 %}{{ raise_exception('nine characters') }}{% endif %}"
    '[TOOL_RESULTS] {"content": {{ message.content | tojson }}, "call_id": "{{ message.tool_call_id }}"}[/TOOL_RESULTS]'
    + _MISTRAL_TAIL,
    "mistral_v13": _MISTRAL_HEAD + "{% elif message.tool_calls is defined %}{% for call in message.tool_calls %}"
    "[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}{{ eos_token }}"
    "{% elif message.role == 'tool' %}[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]" + _MISTRAL_TAIL,
}
"""As the formats of its third and thirteenth tokenizer say."""


def template(name: str) -> str:
    import trl

    return MISTRAL.get(name) or (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()


@cache
def tokenizer(name: str) -> Any:
    """``name``: of MISTRAL or of a template that TRL has."""
    return build_tokenizer(
        template(name), next((end for family, end in _ENDS.items() if name.startswith(family)), "<|im_end|>")
    )


def build_tokenizer(chat_template: str, end: str = "<|im_end|>") -> Any:
    """Every marker in the template is an added token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=["<|endoftext|>", end], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([f"{chat_template} what is the weather in Bonn, system user assistant"], trainer)
    markers = sorted({*_MARKERS.findall(chat_template), "<|begin|>"})
    bpe.add_tokens([AddedToken(marker, special=marker not in ORDINARY, normalized=False) for marker in markers])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<|begin|>",
        eos_token=end,
        pad_token="<|endoftext|>",
        chat_template=chat_template,
    )
