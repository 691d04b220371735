import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rl.base.errors import BadFile, UsageError
from rl.config import AgentConfig
from rl.environments.config_file import AgentFile, read_agent_file
from rl.environments.config_file.document import LARGEST_FILE
from rl.environments.settings import EnvironmentSettings
from rl.environments.tools.web_search.settings import SearchSettings

CODE = """
model: {name: Qwen/Qwen2.5-0.5B-Instruct, dtype: bfloat16}
policy:
  max_new_tokens: 256
  temperature: 0.7
env:
  type: code_exec
  max_turns: 6
  system_prompt: |
    You solve tasks.
    Yes: you.
  success_reward: 1.0
  timeout_penalty: 0.0
  test_timeout: 5.0
rollout: {num_episodes_per_iter: 8}
train: {num_iters: 1000, lr: 1.0e-5, grad_clip: 1.0}
eval: {eval_interval: 50, num_tasks: 64}
"""
SEARCH = """
env: {type: search, success_reward: 1.0, timeout_penalty: -0.1}
tools:
  search:
    mode: web
    provider: tavily
    api_key_env: TAVILY_API_KEY
    endpoint: https://api.tavily.com/search
    default_params: {max_results: 5, include_answer: true}
    timeout: 20
    max_retries: 2
    backoff_factor: 0.8
    rate_limit_per_min: 8
    max_snippet_chars: 520
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str | bytes], AgentFile]:
    def of(content: str | bytes) -> AgentFile:
        path = tmp_path / "config.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_agent_file(path)

    return of


def refused(read: Callable[[str | bytes], AgentFile], content: str | bytes) -> str:
    """What is said after the file's path."""
    with pytest.raises(BadFile) as refusal:
        read(textwrap.dedent(content) if isinstance(content, str) else content)
    return str(refusal.value).partition("config.yaml")[2].lstrip(": ")


def test_a_configuration_of_miniagent_for_code_is_read(read):
    found = read(CODE)
    assert (found.base_model, found.agent, found.dataset_dir) == ("Qwen/Qwen2.5-0.5B-Instruct", "", "")
    assert (found.train_split, found.eval_split) == ("train", "eval")
    assert found.hyper == {
        "precision": "bf16",
        "max_new_tokens": 256,
        "temperature": 0.7,
        "batch_size": 8,
        "gradient_accumulation": 1,
        "max_steps": 1000,
        "learning_rate": 1e-5,
        "max_grad_norm": 1.0,
        "eval_interval": 50,
        "eval_tasks": 64,
    }
    assert AgentConfig().with_overrides(found.hyper).rows_a_step == 8
    environment = found.environment.build()
    assert (environment.max_turns, environment.instructions) == (6, "You solve tasks.\nYes: you.\n")


def test_a_configuration_of_miniagent_for_search_is_read(read):
    found = read(SEARCH)
    assert found.environment.type == "search"
    assert found.environment.options == {"success_reward": 1.0, "timeout_penalty": -0.1}
    settings = SearchSettings.of(found.environment.tools["search"])
    assert (settings.provider, settings.default_params) == ("tavily", {"max_results": 5, "include_answer": True})


def test_our_own_keys_stand_beside_them(read, tmp_path):
    (tmp_path / "tasks").mkdir()
    found = read("""
agent: coder
data: {dataset_dir: tasks, train_split: easy, eval_split: ''}
policy: {type: minimind, top_p: 0.9}
rollout: {num_generations: 4, async_workers: 3}
train: {beta: 0, lora_r: 8, save_steps: 5, sft_epochs: 1, curriculum: yes, seed: 7, device: cpu}
""")
    assert (found.agent, found.dataset_dir) == ("coder", str(tmp_path / "tasks"))
    assert (found.train_split, found.eval_split) == ("easy", "")
    assert found.environment == EnvironmentSettings("code_exec")
    assert found.hyper == {
        "policy_type": "minimind",
        "top_p": 0.9,
        "num_generations": 4,
        "async_rollout_workers": 3,
        "beta": 0,
        "lora_r": 8,
        "save_steps": 5,
        "sft_epochs": 1,
        "curriculum": True,
        "seed": 7,
        "device": "cpu",
    }


def test_what_has_no_value_is_not_given(read):
    found = read("agent:\nmodel:\nenv: {system_prompt: null, max_turns: 2}\ntrain: {lr: ~}\n")
    assert (found.agent, found.base_model, found.hyper) == ("", "", {})
    assert found.environment.options == {"max_turns": 2}


@pytest.mark.parametrize(
    ("episodes", "parts"), [(1, (1, 1)), (8, (8, 1)), (12, (6, 2)), (16, (8, 2)), (11, (1, 11)), ("1e2", (5, 20))]
)
def test_the_episodes_of_a_step_are_cut_into_equal_passes(read, episodes, parts):
    hyper = read(f"rollout: {{num_episodes_per_iter: {episodes}}}").hyper
    assert (hyper["batch_size"], hyper["gradient_accumulation"]) == parts


@pytest.mark.parametrize(
    ("written", "number"), [("1e-5", 1e-5), ("1.5E-5", 1.5e-5), (".1e-4", 1e-5), ("1", 1), ("1e-05", 1e-5)]
)
def test_numbers_are_numbers_without_a_point_too(read, written, number):
    assert read(f"train: {{lr: {written}}}").hyper == {"learning_rate": number}
    assert read(f"env: {{success_reward: {written}}}").environment.options == {"success_reward": number}


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [("auto", "auto"), ("float32", "fp32"), ("fp32", "fp32"), ("bfloat16", "bf16"), ("bf16", "bf16")],
)
def test_a_dtype_is_a_precision(read, dtype, precision):
    assert read(f"model: {{dtype: {dtype}}}").hyper == {"precision": precision}


def test_half_precision_is_refused_with_advice(read):
    told = refused(read, "model:\n  dtype: float16\n")
    assert told.startswith("(line 2): model.dtype float16 overflows in training: choose bfloat16")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("env: {}\npolcy: {}", "(line 2): unknown key 'polcy' (did you mean policy?); known: agent, model, policy,"),
        ("env:\n  max_turn: 3", "(line 2): unknown key 'env.max_turn' (did you mean max_turns?); known: type, "),
        ("train:\n  lr: 1\n  learn_rate: 1", "(line 3): unknown key 'train.learn_rate' (did you mean learning_rate?)"),
        ("train: {environment: {}}", "(line 1): unknown key 'train.environment'; known: "),
        ("model: {nam: x}", "(line 1): unknown key 'model.nam' (did you mean name?); known: name, dtype"),
        ("rollout: {episodes: 3}", "(line 1): unknown key 'rollout.episodes'"),
        ("data: {dir: x}", "(line 1): unknown key 'data.dir'"),
        ("tools:\n  serch: {}", "(line 2): unknown key 'tools.serch' (did you mean search?); known: search"),
        (
            "tools:\n  search:\n    mode: corpus\n    max_retry: 1",
            "(line 4): unknown key 'tools.search.max_retry' (did you mean max_retries?)",
        ),
        ("1: 2", "(line 1): unknown key '1'"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one(read, content, told):
    assert refused(read, content).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("agent: 3", "(line 1): agent must be a text, in quotes, not 3"),
        ("agent: yes", "(line 1): agent must be a text, in quotes, not true"),
        ("model: {name: [a]}", "(line 1): model.name must be a text, in quotes, not a list"),
        ("model: {dtype: 16}", "(line 1): model.dtype must be a text"),
        (
            "model: {dtype: int8}",
            "(line 1): model.dtype must be one of auto, float32, fp32, bfloat16, bf16, not 'int8'",
        ),
        ("policy: {type: qwen}", "(line 1): policy.type must be auto, template, plain or minimind, not 'qwen'"),
        ("policy: {temperature: hot}", "(line 1): policy.temperature must be a number, not 'hot'"),
        ("policy:\n\n  top_p: 7", "(line 3): policy.top_p must be a number from 0.01 to 1, not 7"),
        ("train: {lr: 0}", "(line 1): train.lr must be a number from 1e-09 to 1, not 0"),
        ("train: {lr: '1e-5'}", "(line 1): train.lr must be a number, not '1e-5'"),
        ("train: {num_iters: 1.5}", "(line 1): train.num_iters must be a whole number, not 1.5"),
        ("train: {curriculum: 1}", "(line 1): train.curriculum must be true or false, not 1"),
        ("train: {seed: true}", "(line 1): train.seed must be a number from 0"),
        ("train: {lr: 99999999999999999999999999}", "(line 1): train.lr must be a number, not '999"),
        ("train: 3", "(line 1): train must be a mapping of keys and values, not 3"),
        (
            "rollout: {num_episodes_per_iter: 0}",
            "(line 1): rollout.num_episodes_per_iter must be a whole number from 1",
        ),
        (
            "rollout: {num_episodes_per_iter: 2.5}",
            "(line 1): rollout.num_episodes_per_iter must be a whole number from 1",
        ),
        (
            "rollout: {num_episodes_per_iter: [8]}",
            "(line 1): rollout.num_episodes_per_iter must be a whole number from 1",
        ),
        (
            "env:\n  type: cod_exec",
            "(line 2): env.type: unknown environment 'cod_exec' (did you mean code_exec?)",
        ),
        ("env: {type: 3}", "(line 1): env.type must be a text"),
        ("env:\n  type: search\n  max_turns: six", "(line 3): search: max_turns must be a whole number, not 'six'"),
        ("env:\n  success_reward: .nan", "(line 2): code_exec: success_reward must be a number, not '.nan'"),
        ("env:\n  system_prompt: 3", "(line 2): code_exec: system_prompt must be a text, not '3'"),
        ("env:\n  type: search\n  max_turns: 0", "(line 3): max_turns must be 1 or more, not 0"),
        (
            "tools:\n  search:\n    mode: corpus\n    timeout: 0",
            "(line 4): tools.search.timeout must be a number from 0.1",
        ),
        ("tools:\n  search: 3", "(line 2): tools.search must be a mapping"),
        (
            "tools:\n  search:\n    corpus: nowhere",
            "(line 3): tools.search.corpus must be a folder or a file, there is no ",
        ),
        ("data:\n  dataset_dir: nowhere", "(line 2): data.dataset_dir must be a folder with files of tasks"),
        ("data: {train_split: 3}", "(line 1): data.train_split must be a text"),
        ("train: {quantize_base: 4bit, full: true}", "(line 1): weights in 4 bits cannot be trained"),
    ],
)
def test_an_impossible_value_is_refused_with_its_line_and_what_is_right(read, content, told):
    assert refused(read, content).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("train:\n  lr: 0.1\n  learning_rate: 0.2", "(line 3): train.lr and train.learning_rate say the same"),
        (
            "rollout: {num_episodes_per_iter: 8}\ntrain:\n  batch_size: 2",
            "(line 3): rollout.num_episodes_per_iter and train.batch_size say the same",
        ),
        ("env:\n  max_turns: 3\n  max_turns: 4", "(line 3): the key env.max_turns stands in line 2 already"),
        ("env: {}\nenv: {}", "(line 2): the key env stands in line 1 already"),
    ],
)
def test_what_is_said_twice_is_refused(read, content, told):
    assert refused(read, content).startswith(told)


LAUGHS = "a: &a [lol, lol]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("---\n...\n", "is empty"),
        ("- env", "(line 1): must be a mapping of sections such as env and train, not a list"),
        ("env", "(line 1): must be a mapping of sections such as env and train, not 'env'"),
        ("env: [", "(line 1): is not YAML: "),
        ("env: {}\n env: {}", "(line 2): is not YAML: "),
        ("env: {}\n\tx: 1", "(line 2): is not YAML: "),
        ("env: {}\n---\nenv: {}", "(line 2): is not YAML: but found another document"),
        (
            "env: {max_turns: !!python/object/apply:os.system ['true']}",
            "(line 1): is not YAML: tags such as tag:yaml.org,2002:python/object/apply:os.system are not read here",
        ),
        ("env:\n  max_turns: !!int '3'", "(line 2): is not YAML: tags such as"),
        (LAUGHS, "(line 1): is not YAML: anchors and aliases (& and *) are not read here"),
        ("env: *x", "(line 1): is not YAML: anchors and aliases"),
        ("env: " + "[" * 100_000, "(line 1): is not YAML: it is nested too deeply"),
        ("env: " + "{a: " * 5000, "(line 1): is not YAML: it is nested too deeply"),
        ("? [a]\n: b", "(line 1): a key must be a text"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"env: \x00", "is not YAML: "),
        (b"#" * (LARGEST_FILE + 1), "larger than 256 KiB, which no configuration is"),
    ],
    ids=range(19),
)
def test_what_is_no_configuration_is_a_sentence(read, content, told):
    assert refused(read, content).startswith(told)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(BadFile, match=r"config\.yaml: cannot be read: No such file"):
        read_agent_file(tmp_path / "config.yaml")
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        read_agent_file(tmp_path)


def test_a_corpus_lies_beside_the_file(read, tmp_path):
    (tmp_path / "notes.md").write_text("The tower is 330 metres tall.")
    found = read("env: {type: search}\ntools: {search: {corpus: notes.md, max_snippet_chars: 9}}")
    environment = found.environment.build()
    environment.reset({"task_id": "x", "question": "?", "answer": "!"})
    assert environment.tools.call("search", {"query": "tower"}) == "[1] The tower"
    environment.reset({"task_id": "x", "question": "?", "answer": "!", "documents": ["A tower of cards"]})
    assert environment.tools.call("search", {"query": "tower"}) == "[1] A tower o"


def test_a_damaged_document_is_told_by_its_own_file_and_line(read, tmp_path):
    (tmp_path / "notes.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    with pytest.raises(BadFile, match=r"notes\.jsonl \(line 2\): a document must be an object with a text"):
        read("tools: {search: {corpus: notes.jsonl}}")


def test_an_environment_of_your_own_is_checked_by_its_signature(read):
    own = "env:\n  type: tests.environments.crew.worlds:World\n"
    assert read(own + "  tool_seconds: 3").environment.options == {"tool_seconds": 3}
    assert refused(read, own + "  tool_seconds: x").startswith(
        "(line 3): tests.environments.crew.worlds:World: tool_seconds"
    )
    assert "(did you mean tool_seconds?)" in refused(read, own + "  tol_seconds: 1")


def test_settings_refuse_with_the_nearest_name_too():
    with pytest.raises(UsageError, match=r"code_exec has no setting 'max_turn' \(did you mean max_turns\?\); it has: "):
        EnvironmentSettings(options={"max_turn": 1}).check()
    with pytest.raises(UsageError, match=r"unknown entry of tools 'serch' \(did you mean search\?\)"):
        EnvironmentSettings(tools={"serch": {}}).check()
