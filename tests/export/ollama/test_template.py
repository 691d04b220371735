from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from rl.base.errors import ExportFailed
from rl.base.records import Message
from rl.export.ollama.template import family_of_file, find_family
from tests.export.go_templates import render
from tests.export.tiny_gguf import CHATML, write_gguf
from tests.export.tiny_models import byte_level_tokenizer

pytestmark = pytest.mark.learn

CHATML_WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help in {a shop}.<|im_end|>\n{% endif %}" + CHATML
)
CHATML_FOR_TRAINING = CHATML.replace(
    "{{ message.content }}", "{% generation %}{{ message.content }}{% endgeneration %}"
)
LLAMA_3 = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{{ message.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLAMA_3_WITH_DATE = (
    "{{ bos_token }}{% if strftime_now is defined %}{% set day = strftime_now('%d %b %Y') %}{% else %}"
    "{% set day = '26 Jul 2024' %}{% endif %}"
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}"
    "{% else %}{% set system = '' %}{% endif %}"
    "<|start_header_id|>system<|end_header_id|>\n\nToday is {{ day }}\n\n{{ system }}<|eot_id|>"
) + LLAMA_3.removeprefix("{{ bos_token }}")
_ALTERNATE = (
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('user and assistant must alternate') }}{% endif %}"
)
MISTRAL_WITHOUT_SYSTEM = (
    "{{ bos_token }}" + _ALTERNATE + "{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
_TAKE_SYSTEM = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}"
    "{% endif %}{{ bos_token }}"
)
MISTRAL_SYSTEM_FIRST = (
    _TAKE_SYSTEM + _ALTERNATE + "{% if message.role == 'user' %} [INST] "
    "{% if loop.first and system is defined %}{{ system }}\n\n{% endif %}{{ message.content }} [/INST]"
    "{% else %} {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
MISTRAL_SYSTEM_LAST = (
    _TAKE_SYSTEM + _ALTERNATE + "{% if message.role == 'user' %}[INST] "
    "{% if loop.last and system is defined %}{{ system }}\n\n{% endif %}{{ message.content }}[/INST]"
    "{% else %} {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
MISTRAL_SYSTEM_BLOCK = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}[INST]{{ message.content }}[/INST]"
    "{% elif message.role == 'system' %}[SYSTEM_PROMPT]{{ message.content }}[/SYSTEM_PROMPT]"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
KNOWN = {
    "chatml": (CHATML, "ChatML", ["<|im_end|>"]),
    "chatml-default": (CHATML_WITH_DEFAULT, "ChatML", ["<|im_end|>"]),
    "chatml-training": (CHATML_FOR_TRAINING, "ChatML", ["<|im_end|>"]),
    "llama": (LLAMA_3, "Llama 3", ["<|eot_id|>"]),
    "llama-date": (LLAMA_3_WITH_DATE, "Llama 3", ["<|eot_id|>"]),
    "mistral-first": (MISTRAL_SYSTEM_FIRST, "Mistral instruct", ["</s>"]),
    "mistral-last": (MISTRAL_SYSTEM_LAST, "Mistral instruct", ["</s>"]),
    "mistral-block": (MISTRAL_SYSTEM_BLOCK, "Mistral instruct", ["</s>"]),
}


def message(role: str, content: str) -> Message:
    return Message(role=role, content=content)


SYSTEM = message("system", "Answer in one sentence.")
CHATS = [
    [message("user", "Where is my parcel?")],
    [
        message("user", "Hi"),
        message("assistant", "Hello!\n\nHow can I help?"),
        message("user", "{{ .System }} {% x %}"),
    ],
    [
        message("user", "1 + 1?"),
        message("assistant", "2"),
        message("user", "And 2 + 2?"),
        message("assistant", "4 🙂"),
        message("user", "Thank you"),
    ],
]
TOKENS = {"bos": "<s>", "eos": "</s>"}


def as_transformers_renders(jinja: str, chat: list[Message]) -> str:
    """Without the begin-of-text token, which Ollama adds itself."""
    tokenizer: PreTrainedTokenizerFast = byte_level_tokenizer()
    tokenizer.bos_token, tokenizer.eos_token = TOKENS["bos"], TOKENS["eos"]
    text = tokenizer.apply_chat_template(chat, chat_template=jinja, tokenize=False, add_generation_prompt=True)
    return str(text).removeprefix(TOKENS["bos"])


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "llama-date"])
def test_ollama_writes_the_prompt_that_the_model_was_trained_on(name: str):
    jinja, family_name, stop = KNOWN[name]
    family = find_family(jinja, **TOKENS)
    assert (family.name, family.stop, family.takes_system) == (family_name, stop, True)
    for chat in (*CHATS, *([SYSTEM, *chat] for chat in CHATS)):
        assert render(family.ollama_template(), chat) == as_transformers_renders(jinja, chat)


def test_chatml_reads_as_people_write_it():
    assert find_family(CHATML, bos="", eos="").ollama_template() == (
        '{{ range .Messages }}{{ if eq .Role "user" }}<|im_start|>user\n{{ .Content }}<|im_end|>\n'
        '{{ else if eq .Role "system" }}<|im_start|>system\n{{ .Content }}<|im_end|>\n'
        '{{ else if eq .Role "assistant" }}<|im_start|>assistant\n{{ .Content }}<|im_end|>\n'
        "{{ end }}{{ end }}<|im_start|>assistant\n"
    )


def test_a_template_that_writes_the_date_keeps_the_one_it_falls_back_on():
    template = find_family(LLAMA_3_WITH_DATE, **TOKENS).ollama_template()
    head = "<|start_header_id|>system<|end_header_id|>\n\nToday is 26 Jul 2024\n\n"
    question = "<|start_header_id|>user<|end_header_id|>\n\nWhere is my parcel?<|eot_id|>"
    answer = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    assert render(template, CHATS[0]) == f"{head}<|eot_id|>{question}{answer}"
    assert render(template, [SYSTEM, *CHATS[0]]) == f"{head}Answer in one sentence.<|eot_id|>{question}{answer}"


@pytest.mark.parametrize(
    "jinja",
    [MISTRAL_WITHOUT_SYSTEM, CHATML.replace("%}<|im_start|>", "if message.role != 'system' %}<|im_start|>", 1)],
    ids=["refuses", "ignores"],
)
def test_a_template_that_takes_no_system_message_is_told_apart(jinja: str):
    family = find_family(jinja, **TOKENS)
    assert not family.takes_system
    assert "system" not in family.ollama_template().lower()
    assert render(family.ollama_template(), CHATS[2]) == as_transformers_renders(jinja, CHATS[2])


@pytest.mark.parametrize("opening", ["<think>\n", "<think>\n\n</think>\n\n"])
def test_what_a_template_writes_behind_the_opening_of_a_turn_stands_there(opening: str):
    switched = "{% if not enable_thinking %}" + opening + "{% endif %}"
    for jinja in (opening, switched):
        family = find_family(
            CHATML.replace("assistant\n{% endif", f"assistant\n{jinja}{{% endif"), bos="", eos="<|im_end|>"
        )
        assert family.generation == f"<|im_start|>assistant\n{opening}"
        assert family.ollama_template().endswith(opening)


@pytest.mark.parametrize(
    "jinja",
    [
        "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}### assistant:\n",
        CHATML.replace("{{ message.content }}", "{{ message.content }} "),
        CHATML.replace("{{ message.role }}", "{{ 'human' if message.role == 'user' else message.role }}"),
        CHATML.replace("{{ message.content }}", "{{ message.content | upper }}"),
        CHATML.replace("in messages %}", "in messages[-1:] %}"),
        MISTRAL_SYSTEM_LAST.replace("{{ system }}\n\n", "<<SYS>>{{ system }}<</SYS>>"),
    ],
    ids=["home-made", "a-space-more", "another-role", "upper-case", "last-only", "llama-2"],
)
def test_a_template_that_only_looks_like_a_known_one_is_refused(jinja: str):
    with pytest.raises(ExportFailed, match=r"no known equivalent in Ollama; known: ChatML, Llama 3, Mistral instruct"):
        find_family(jinja, **TOKENS)


@pytest.mark.parametrize(
    ("jinja", "complaint"),
    [
        ("{% for message in messages %}", "is broken: Unexpected end of template"),
        ("{{ messages[0].content + 1 }}", "fails: TypeError"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "fails: SecurityError"),
        ("{{ raise_exception('never') }}", "fails: TemplateError: never"),
    ],
)
def test_a_broken_or_hostile_template_is_one_line(jinja: str, complaint: str):
    with pytest.raises(ExportFailed, match="this model's chat template") as error:
        find_family(jinja, **TOKENS)
    assert complaint in str(error.value)


@pytest.mark.parametrize("jinja", [CHATML, LLAMA_3, MISTRAL_SYSTEM_LAST])
def test_the_template_and_the_special_tokens_are_read_from_the_file(tmp_path: Path, jinja: str):
    read = family_of_file(write_gguf(tmp_path / "m.gguf", jinja))
    assert read == find_family(jinja, **TOKENS)


def test_a_file_without_a_chat_template_is_refused(tmp_path: Path):
    with pytest.raises(ExportFailed, match="m.gguf has no chat template"):
        family_of_file(write_gguf(tmp_path / "m.gguf", None))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"hello, I am no model"])
def test_a_file_that_is_no_gguf_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ExportFailed, match="m.gguf: is not a whole GGUF file"):
        family_of_file(tmp_path / "m.gguf")
