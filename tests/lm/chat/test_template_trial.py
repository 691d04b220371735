"""Chat templates that loop, multiply or call themselves are refused before anybody uses them, in one line."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import ExportFailed, RatchetError, TrainingFailed, UsageError
from rl.base.records import silent
from rl.export.gguf.export import convert
from rl.export.gguf.unpack import unpack
from rl.export.hf.loading import load_tokenizer as load_for_export
from rl.export.ollama.template import find_family
from rl.lm.chat import template_trial
from rl.lm.chat.template_trial import require_modest, write_chats
from rl.lm.loading import load_tokenizer
from tests.refusals import limited

pytestmark = pytest.mark.learn

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}"
ENDS = "{% endfor %}{% endfor %}{% endfor %}"
BILLION = "{{ 'x' * 1000000000 }}"
HOSTILE = {
    "loops": f"{LOOPS}{ENDS}",
    "loops that write": f"{LOOPS}x{ENDS}",
    "loops over a text": "{% for a in 'x' * 9999 %}{% for b in 'x' * 9999 %}{% for c in 'x' * 9999 %}" + ENDS,
    "a text times a billion": BILLION,
    "a text times itself": "{% set ns = namespace(t='x' * 1000) %}"
    "{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
    "a list times itself": "{% set ns = namespace(t=[1]) %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
    "a list of a billion": "{{ ([0] * 1000000000) | length }}",
    "a power": "{{ (10 ** 10000000000) % 7 }}",
    "a product": "{% set ns = namespace(t=99999999999) %}{% for i in range(60) %}{% set ns.t = ns.t * ns.t %}{% endfor %}",
    "a wide text": "{{ '%1000000000s' % 'x' }}",
    "a wide text by format": "{{ '{:1000000000}'.format('x') }}",
    "a text in the middle": "{{ 'x' | center(1000000000) }}",
    "indented": "{{ ('x\\n' * 100000) | indent(100000) }}",
    "replaced": "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
    "joined": "{{ (['x' * 100000] * 100000) | join }}",
    "a macro of itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a macro twice of itself": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(90) }}",
    "a loop of itself": "{% for a in [messages] recursive %}{{ loop([messages]) }}{% endfor %}",
    "20 MB": "{{ 'x' * 20000000 }}",
    "a template of 2 MB": "x" * 2_000_000,
    "brackets": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "blocks": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "when there are tools": "{% if tools %}" + BILLION + "{% endif %}",
    "when there is a system message": "{% if messages[0].role == 'system' %}" + BILLION + "{% endif %}",
    "when tools were called": "{% for m in messages if m.tool_calls %}" + BILLION + "{% endfor %}",
    "when there are many messages": "{% if messages | length > 30 %}" + BILLION + "{% endif %}",
    "sorted": "{% for i in range(99999) %}{{ range(99999) | sort(reverse=true) | length }}{% endfor %}",
    "JSON within JSON": "{% set ns = namespace(t='\"') %}{% for i in range(40) %}{% set ns.t = ns.t | tojson %}{% endfor %}",
}
ENDLESS = ("loops that write", "loops over a text", "a power", "a product", "a macro twice of itself", "sorted")
"""Need no three seconds to show that they never end: "loops" does have them."""
MODEST = {
    "nothing": "",
    "a refusal": "{{ raise_exception('no') }}",
    "broken": "{% for",
    "an error": "{{ messages[99].content }}",
    "the sandbox": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "plain": "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
    "the date": "{{ strftime_now('%Y') }}",
    "JSON": "{{ tools | tojson(indent=2) }}",
}


def python_for_a_second(script: Path) -> Path:
    """The child keeps the stricter of two limits."""
    script.write_text(f'#!/bin/sh\nulimit -t 1\nexec {sys.executable} "$@"\n')
    script.chmod(0o700)
    return script


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_takes_too_much_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if name in ENDLESS:
        monkeypatch.setattr(sys, "executable", str(python_for_a_second(tmp_path / "python")))
    with limited(), pytest.raises(UsageError, match="the chat template of somebody cannot be used: it ") as caught:
        require_modest(HOSTILE[name], "somebody", UsageError)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", MODEST)
def test_a_template_that_refuses_or_fails_is_for_its_user_to_tell(name: str):
    require_modest(MODEST[name], "somebody", UsageError)


def test_several_templates_by_name_are_all_tried():
    with pytest.raises(UsageError, match="too much memory"):
        require_modest({"default": "x", "tool_use": HOSTILE["a text times a billion"]}, "somebody", UsageError)


def test_a_template_is_tried_once_in_a_process(monkeypatch: pytest.MonkeyPatch):
    runs = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: runs.append(words) or run(*words, **options))
    for _ in range(3):
        require_modest("{{ messages[0].content }} once", "somebody", UsageError)
    assert len(runs) == 1


def test_the_child_has_no_variable_of_ours_and_writes_as_transformers_does(
    tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    tokenizer = load_tokenizer(str(tiny_model("qwen3")))
    probes = [probe for probe in template_trial._PROBES if "tool_calls" not in str(probe)]
    variables = {"bos_token": "", "eos_token": str(tokenizer.eos_token)}
    for probe, written in zip(probes, write_chats(tokenizer.chat_template, probes, variables), strict=True):
        arguments = {name: value for name, value in probe.items() if name != "messages"}
        assert written["text"] == tokenizer.apply_chat_template(probe["messages"], tokenize=False, **arguments)


def with_template(model: Path, folder: Path, template: str) -> Path:
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.mark.parametrize(
    "load", [load_tokenizer, lambda folder: load_for_export(folder, None)], ids=["train", "export"]
)
def test_no_model_with_such_a_template_is_loaded(
    load: Callable[[str], Any], tiny_model: Callable[[str], Path], tmp_path: Path
):
    folder = with_template(tiny_model("llama"), tmp_path / "model", HOSTILE["a text times a billion"])
    with limited(), pytest.raises((TrainingFailed, ExportFailed), match="the chat template of .*model cannot be used"):
        load(str(folder))


def test_none_comes_out_of_a_gguf_file(tiny_model: Callable[[str], Path], tmp_path: Path):
    model, template = tiny_model("qwen2-tied"), HOSTILE["a text times a billion"]
    file = tmp_path / "model.gguf"
    convert(model, file, "f32", "a model", silent)
    before = (
        json.loads((model / "tokenizer_config.json").read_text()).get("chat_template")
        or (model / "chat_template.jinja").read_text()
    )
    raw = file.read_bytes()
    padded = template.ljust(len(before.encode()))
    file.write_bytes(raw.replace(before.encode(), padded.encode()))
    with limited(), pytest.raises(RatchetError, match="the chat template of .* cannot be used"):
        unpack(file, tmp_path / "unpacked", silent)
    assert not (tmp_path / "unpacked").exists()


def test_ollama_is_given_none():
    with limited(), pytest.raises(ExportFailed, match="this model's chat template cannot be used: it takes too much"):
        find_family(HOSTILE["a text times a billion"], bos="", eos="")
