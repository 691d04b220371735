"""What is trained is what is served, with every chat template that TRL has and some that set traps."""

import importlib.util
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from rl.base.records import silent
from rl.base.template_settings import SWITCH, template_settings
from rl.lm.chat.template import AnswerFrame, answer_form
from rl.lm.encoding import answer_text, encode
from tests.training.chatting import MISTRAL, build_tokenizer, tokenizer

pytestmark = pytest.mark.learn

_TURNS = "{% for m in messages %}{{ '<|' + m.role + '|>' }}"
_OPEN = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
_SYSTEM_LAST = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}{% endif %}"
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{% if loop.last and system is defined %}"
    "{{ system + '\n\n' }}{% endif %}{{ m.content }}[/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
TRAPS = {
    "the system text stands in the last turn of the user": _SYSTEM_LAST,
    "answers are trimmed": _TURNS + "{{ m.content | trim }}<|end|>{% endfor %}" + _OPEN,
    "a thought is opened, and dropped from what was said": _TURNS
    + "{{ m.content.split('</think>')[-1] }}<|end|>{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}",
    "an empty thought is written before each answer": _TURNS
    + "{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|end|>{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}",
    "thoughts are switched off behind the opening": _TURNS
    + "{{ m.content }}<|end|>{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}",
    "the opening is written otherwise than the turn": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}",
    "no turn has an end": _TURNS + "{{ m.content }}{% endfor %}" + _OPEN,
    "only turns that are followed have an end": _TURNS
    + "{{ m.content }}{% if not loop.last %}<|end|>{% endif %}{% endfor %}"
    + _OPEN,
    "the end of the text stands behind the last answer alone": _TURNS
    + "{{ m.content }}<|end|>\n{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|>{% else %}<|endoftext|>{% endif %}",
    "system messages are refused": "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    + _TURNS
    + "{{ m.content }}<|end|>{% endfor %}"
    + _OPEN,
    "turns must alternate": "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('alternate') }}{% endif %}{{ '<|' + m.role + '|>' + m.content }}<|end|>{% endfor %}" + _OPEN,
    "texts are read as parts alone": _TURNS
    + "{% for part in m.content %}{{ part.text }}{% endfor %}<|end|>{% endfor %}"
    + _OPEN,
    "answers begin with a new line of their own": _TURNS + "\n{{ m.content }}\n<|end|>\n{% endfor %}" + _OPEN,
}
CHATS = {
    "a question": [("user", "Where is Bonn?")],
    "a system text": [("system", "Answer in French."), ("user", "Where is Bonn?")],
    "turns": [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi."), ("user", "Where is Bonn?")],
    "two of the user in a row": [("user", "Hello"), ("user", "Where is Bonn?")],
    "blanks at both ends": [("user", "  Where is Bonn?\n\n")],
}
THOUGHT = "Bonn? A city.\n\nOn a river."
ANSWERS = ("On the Rhine.", " On the Rhine.", "\nOn the Rhine.\n", "  \n\nOn  the Rhine. \n", "東京 🙂", "", "<think>")


def _templates() -> Iterator[str]:
    [folder] = importlib.util.find_spec("trl").submodule_search_locations  # type: ignore[union-attr, misc]
    yield from sorted(path.stem for path in (Path(folder) / "chat_templates").glob("*.jinja"))
    yield from MISTRAL


def _tokenizer(name: str, thinks: bool = False) -> Any:
    model = (
        build_tokenizer(TRAPS[name] + "{# <|system|><|user|><|assistant|><|end|> #}")
        if name in TRAPS
        else copy(tokenizer(name))  # those of all tests stay as they are
    )
    model.init_kwargs = {**model.init_kwargs, SWITCH: thinks}
    return model


def _served(model: Any, messages: list[dict[str, str]], thinks: bool) -> list[str]:
    """What a server may make of the messages: as they are, or where the template refuses that or drops the system text,
    with system and user, or two messages of the user, as one."""
    ways = [messages]
    if messages[0]["role"] == "system":
        system, user, *rest = messages
        ways.append([{**user, "content": f"{system['content']}\n{user['content']}"}, *rest])
    if [message["role"] for message in messages] == ["user", "user"]:
        ways.append([{"role": "user", "content": "\n\n".join(message["content"] for message in messages)}])
    ways += [[{**m, "content": [{"type": "text", "text": m["content"]}]} for m in way] for way in list(ways)]
    texts = []
    for way in ways:
        try:
            texts.append(
                model.apply_chat_template(way, add_generation_prompt=True, tokenize=False, **template_settings(thinks))
            )
        except Exception:
            continue
    return texts


@pytest.mark.parametrize("thinks", [False, True], ids=["", "thinking"])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", [*_templates(), *TRAPS])
def test_the_trained_prompt_is_the_served_one_and_an_answer_is_its_words_and_its_end(
    name: str, chat: str, thinks: bool
):
    model = _tokenizer(name, thinks)
    messages = [{"role": role, "content": content} for role, content in CHATS[chat]]
    answers = {f"answer{number}": [{"role": "assistant", "content": text}] for number, text in enumerate(ANSWERS)}
    thoughts = {
        f"thought{number}": [{**answer[0], "reasoning_content": THOUGHT}]
        for number, answer in enumerate(answers.values())
    }
    names = (*answers, *thoughts)
    [encoded] = encode(model, [{"prompt": messages, **answers, **thoughts}], 1, silent, names)
    served = _served(model, messages, thinks)
    assert encoded["prompt_ids"] in [model(text, add_special_tokens=False)["input_ids"] for text in served]
    form = answer_form(model)
    before = THOUGHT.join(form.thought) if thinks and form.thought else form.lead
    for number, text in enumerate(ANSWERS):
        assert model.decode(encoded[f"answer{number}_ids"]) == f"{form.lead}{text}{form.end}"
        assert model.decode(encoded[f"thought{number}_ids"]) == f"{before}{text}{form.end}"
    assert encoded.get("dropped_thoughts", False) is (thinks and form.thought is None)
    # everything that was asked is in the prompt, and nothing of it is learned
    prompt = model.decode(encoded["prompt_ids"])
    assert all(text.strip() in prompt for _, text in CHATS[chat])
    assert "Bonn" not in form.lead + form.end


@pytest.mark.parametrize("thinks", [False, True], ids=["", "thinking"])
@pytest.mark.parametrize("name", [*_templates(), *TRAPS])
def test_what_stands_around_the_words_of_an_answer_is_an_empty_thought_or_a_marker_and_one_end(name: str, thinks: bool):
    model = _tokenizer(name, thinks)
    form = answer_form(model)
    ends = {number for number, token in model.added_tokens_decoder.items() if token.special} | {model.eos_token_id}
    ids = model(form.end, add_special_tokens=False)["input_ids"]
    assert ids[-1] in ends
    assert form.end_id == ids[-1]
    leads = ("", "</think>", "<think></think>", "<|channel|>final<|message|>", "to=user<|message|>")
    assert "".join(form.lead.split()) in leads


THINKING = ("deepseek", "diffusion_gemma", "gemma4", "glm", "gptoss", "lfm2_2_5", "muse", "nemotron", "qwen3")
NOT_THINKING = ("qwen3_instruct", "qwen3_vl")


@pytest.mark.parametrize("name", _templates())
def test_thoughts_are_learned_as_the_templates_of_models_that_think_write_them(name: str):
    model = _tokenizer(name, thinks=True)
    knows = name.startswith(THINKING) and not name.startswith(NOT_THINKING)
    form = answer_form(model)
    assert (form.thought is not None) is knows
    if form.thought:
        written = _written_thought(model)
        opened = _served(model, [{"role": "user", "content": "?"}], True)[0]
        assert written is None or written == opened + THOUGHT.join(form.thought)


def _written_thought(model: Any) -> str | None:
    """What the template itself writes before the words of an answer; None where it drops thoughts that are past."""
    answer = {
        "role": "assistant",
        "content": "On the Rhine.",
        **dict.fromkeys(("reasoning_content", "thinking"), THOUGHT),
    }
    chat = [{"role": "user", "content": "?"}, answer]
    text = model.apply_chat_template(chat, tokenize=False, **template_settings(True))
    return text.partition("On the Rhine.")[0] if THOUGHT in text else None


@pytest.mark.parametrize(
    ("name", "before", "behind"),
    [
        ("qwen3", "<think>\n", "\n</think>\n\n"),
        ("qwen3_5_think", "", "\n</think>\n\n"),
        ("deepseek_r1_distill", "", "\n</think>\n\n"),
        ("glm4moe", "\n<think>", "</think>\n"),
        ("gemma4", "<|channel>thought\n", "\n<channel|>"),
        ("gptoss", "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("a thought is opened, and dropped from what was said", "", "\n</think>\n\n"),
    ],
)
def test_what_stands_around_a_thought(name: str, before: str, behind: str):
    assert answer_form(_tokenizer(name, thinks=True)).thought == (before, behind)


@pytest.mark.parametrize(
    ("name", "lead", "end"),
    [
        ("the system text stands in the last turn of the user", " ", "<|im_end|>"),
        ("a thought is opened, and dropped from what was said", "\n</think>\n\n", "<|end|>"),
        ("an empty thought is written before each answer", "\n</think>\n\n", "<|end|>"),
        ("thoughts are switched off behind the opening", "", "<|end|>"),
        ("the opening is written otherwise than the turn", " ", "<|im_end|>"),
        ("only turns that are followed have an end", "", "<|im_end|>"),
        ("the end of the text stands behind the last answer alone", "", "<|end|>"),
        ("answers begin with a new line of their own", "\n", "\n<|end|>"),
        ("phi3", "", "<|end|>"),
        ("gptoss", "<|channel|>final<|message|>", "<|return|>"),
        ("cohere2", "", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"),
        ("qwen3", "", "<|im_end|>"),
        ("deepseek_r1_distill", "\n</think>\n\n", "<|im_end|>"),
    ],
)
def test_what_stands_around_an_answer(name: str, lead: str, end: str):
    form = answer_form(_tokenizer(name))
    assert (form.lead, form.end) == (lead, end)


@pytest.mark.parametrize("name", [*_templates(), *TRAPS])
def test_a_generated_answer_reads_as_its_words(name: str):
    model, row = _tokenizer(name), {"prompt": [{"role": "user", "content": "Where is Bonn?"}]}
    answer = [{"role": "assistant", "content": "On the Rhine."}]
    [encoded] = encode(model, [{**row, "completion": answer}], 1, silent, ("completion",))
    assert answer_text(model, row, encoded["completion_ids"]).rstrip("\n") == "On the Rhine."


@pytest.mark.parametrize("name", [*_templates(), *TRAPS])
def test_of_a_model_that_thinks_an_answer_reads_without_its_thought(name: str):
    model, row = _tokenizer(name, thinks=True), {"prompt": [{"role": "user", "content": "Where is Bonn?"}]}
    words = {"role": "assistant", "content": "On the Rhine."}
    answers = {"alone": [words], "thought": [{**words, "reasoning_content": THOUGHT}]}
    [encoded] = encode(model, [{**row, **answers}], 1, silent, tuple(answers))
    for answer in answers:
        assert answer_text(model, row, encoded[f"{answer}_ids"]).rstrip("\n") == "On the Rhine."
    if form := answer_form(model).thought:  # one that was cut off within its thought says nothing
        cut = model(form[0] + THOUGHT, add_special_tokens=False)["input_ids"]
        assert answer_text(model, row, cut) == ""


def test_a_tokenizer_that_begins_a_text_with_a_blank_puts_none_before_an_answer():
    letters = "▁abcdefghijklmnopqrstuvwxyz.?"
    pieces = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, [], unk_token="?"))
    pieces.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    pieces.add_tokens([AddedToken(text, special=True, normalized=False) for text in ("<s>", "</s>")])
    template = "{% for m in messages %}{{ m.role }} {{ m.content }}</s>{% endfor %}"
    template += "{% if add_generation_prompt %}assistant {% endif %}"
    model = PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token="</s>", chat_template=template)
    [ids] = AnswerFrame(model).behind([("user where?</s>assistant ", "here", "")])
    assert model.convert_ids_to_tokens(ids) == ["h", "e", "r", "e", "</s>"]
