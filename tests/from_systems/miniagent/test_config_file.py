import textwrap
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.environments.config_file import AgentFile, agent_file_of, read_document
from rl.from_systems.miniagent.config_file import SEARCH_DEFAULTS, group_size, translate

CODE = """
model: {name: minimind-base, dtype: float32}
policy: {max_new_tokens: 256, temperature: 0.7, do_sample: true}
env: {type: code_exec, max_turns: 6, success_reward: 1.0, timeout_penalty: 0.0, test_timeout: 5.0}
tools: {code_exec: {python_executable: python, workdir: null}}
rollout: {num_episodes_per_iter: 8}
train: {num_iters: 1000, lr: 1.0e-5, grad_clip: 1.0, norm_adv_by_std: true, gamma: 1.0, entropy_coef: 0.0}
eval: {eval_interval: 50, num_tasks: 64}
"""
SEARCH = """
env: {type: search, success_reward: 1.0, timeout_penalty: -0.1}
tools:
  search: {mode: web, provider: mine, endpoint: "http://localhost:9/search", timeout: 20, rate_limit_per_min: 8}
train: {lr: 1.0e-5}
"""


def read(folder: Path, content: str) -> tuple[AgentFile, list[str]]:
    """The file and the notes; it must be Miniagent's."""
    translation = translate(read_document(write(folder, content)))
    assert translation is not None
    return agent_file_of(translation.document), list(translation.notes)


def write(folder: Path, content: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(textwrap.dedent(content))
    return path


def test_a_file_for_code_means_what_it_means_there(tmp_path: Path):
    file, notes = read(tmp_path, CODE)
    assert file.environment.options["reward_on"] == "tool_call"
    assert (file.environment.tools, file.base_model) == ({}, "minimind-base")
    expected = {
        "max_steps": 1000,
        "max_new_tokens": 256,
        "top_p": 0.95,
        "num_generations": 8,
        "batch_size": 8,
        "seed": 42,
    }
    assert {name: file.hyper[name] for name in expected} == expected
    assert (file.hyper["eval_interval"], file.hyper["eval_tasks"]) == (50, 64)
    for words in ("reward_on tool_call", "tools.code_exec has no effect", "train.gamma", "train.entropy_coef"):
        assert any(words in note for note in notes), words
    assert not any("norm_adv_by_std" in note for note in notes)


def test_what_is_not_given_is_as_it_is_there(tmp_path: Path):
    file, _ = read(tmp_path, "train: {lr: 1.0e-4}")
    assert file.environment.type == "code_exec"
    expected = {"max_new_tokens": 128, "temperature": 0.7, "top_p": 0.95, "max_steps": 1, "num_generations": 4}
    assert {name: file.hyper[name] for name in expected} == expected


def test_a_file_for_search_means_what_it_means_there(tmp_path: Path):
    file, notes = read(tmp_path, SEARCH)
    options = {"success_reward": 1.0, "timeout_penalty": -0.1, "wrong_answer_ends": False, "max_turns": 4}
    assert file.environment.options == options
    search = file.environment.tools["search"]
    assert (search["timeout"], search["rate_limit_per_min"], search["max_snippet_chars"]) == (20, 8, 480)
    assert "wrong_answer_ends false" in notes[0]


def search_of(folder: Path, section: str, env: str = "{type: search}") -> dict[str, Any]:
    file, _ = read(folder, f"env: {env}\ntools: {{search: {section}}}\ntrain: {{lr: 1.0e-5}}")
    return dict(file.environment.tools["search"])


def test_the_web_is_searched_by_tavily_without_a_limit_unless_it_says_otherwise(tmp_path: Path):
    web = {"mode": "web", "provider": "tavily", "rate_limit_per_min": None, **SEARCH_DEFAULTS}
    assert search_of(tmp_path, "{max_retries: 2}") == web
    assert search_of(tmp_path, "{}") == {"mode": "corpus", **SEARCH_DEFAULTS}


def test_a_list_of_texts_is_searched_where_a_task_has_none(tmp_path: Path):
    assert search_of(tmp_path, '{mode: corpus, corpus: ["a b", "c"]}')["corpus"] == ["a b", "c"]
    env = '{type: search, default_corpus: ["The tower is tall.", "The door is green."]}'
    file, _ = read(tmp_path, f"env: {env}\ntools: {{search: {{mode: corpus, corpus: [x]}}}}\ntrain: {{lr: 1.0e-5}}")
    world = file.environment.build()
    world.reset({"task_id": "t", "question": "?", "answer": "green"})
    assert world.tools.call("search", {"query": "door"}) == "[1] The door is green."
    world.reset({"task_id": "t", "question": "?", "answer": "x", "documents": ["A door of its own."]})
    assert world.tools.call("search", {"query": "door"}) == "[1] A door of its own."


def test_a_corpus_without_a_use_is_told(tmp_path: Path):
    content = "env: {type: search, default_corpus: [a]}\ntools: {search: {mode: web}}\ntrain: {lr: 0.1}"
    file, notes = read(tmp_path, content)
    assert "corpus" not in file.environment.tools["search"]
    assert "the corpus has no effect: tools.search.mode is web" in notes
    _, notes = read(tmp_path, "env: {type: code_exec, default_corpus: [a]}\ntools: {search: {mode: web}}")
    assert "what is said of searching has no effect: the environment is code_exec" in notes


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "env: {type: search}\ntools:\n  search:\n    api_key: abc\ntrain: {lr: 0.1}",
            "TAVILY_API_KEY, and its name into api_key_env",
        ),
        (
            "env:\n  default_corpus: text\n  type: search\ntrain: {lr: 0.1}",
            "(line 2): env.default_corpus must be a list of texts",
        ),
        ("policy: {do_sample: true}\ntrain: {lr: 0.1, momentum: 1}", "unknown key 'train.momentum'"),
        ("tools: {code_exec: {}}\nenv: {type: cod_exec}", "unknown environment 'cod_exec'"),
        ("model: {dtype: float16}\ntrain: {lr: 0.1}", "model.dtype float16 overflows in training"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, content: str, words: str):
    with pytest.raises(BadFile) as refusal:
        read(tmp_path, content)
    assert words in str(refusal.value)
    assert "(line " in str(refusal.value)
    assert "abc" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("policy: {do_sample: false}\ntrain: {lr: 0.1}", "policy.do_sample: false has no effect"),
        ("train: {lr: 0.1, norm_adv_by_std: false}", "train.norm_adv_by_std has no effect: advantages are always"),
        ("train: {lr: 0.1, learning_rate: 0.2}", "train.learning_rate has no effect: train.lr is"),
        ("train: {lr: 0.1}\neval: {batch: 3}", "eval.batch has no effect"),
        ("env: {type: search, test_timeout: 3}\ntrain: {lr: 0.1}", "env.test_timeout has no effect"),
    ],
)
def test_a_key_without_effect_is_told(tmp_path: Path, content: str, words: str):
    _, notes = read(tmp_path, content)
    assert any(words in note for note in notes)


@pytest.mark.parametrize(
    "content",
    [
        "agent: coder\ntrain: {lr: 0.1}",
        "train: {lr: 0.1, lora_r: 2}",
        "env: {type: code_exec, failure_penalty: -0.1}\ntrain: {lr: 0.1}",
        "env: {type: code_exec}\ntrain: {num_iters: 3}",
        "data: {train_split: easy}\ntrain: {lr: 0.1}",
        "policy: {type: plain}\ntrain: {lr: 0.1}",
        "train: 3",
        "train:",
    ],
)
def test_a_file_of_ours_stays_as_it_is(tmp_path: Path, content: str):
    assert translate(read_document(write(tmp_path, content))) is None


def test_what_a_key_of_its_own_marks_stays_miniagents_with_keys_of_ours_beside_it(tmp_path: Path):
    file, _ = read(
        tmp_path, "agent: mine\npolicy: {do_sample: true}\nenv: {reward_on: either}\ntrain: {lr: 0.1, lora_r: 2}"
    )
    assert (file.agent, file.environment.options["reward_on"], file.hyper["lora_r"]) == ("mine", "either", 2)


@pytest.mark.parametrize(
    ("episodes", "size"), [(8, 8), (4, 4), (12, 6), (16, 8), (1, 2), (2, 2), (7, 7), (11, 8), (13, 8)]
)
def test_the_groups_of_a_step_fill_it(episodes: int, size: int):
    assert group_size(episodes) == size
