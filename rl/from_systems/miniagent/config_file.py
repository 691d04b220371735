"""Its YAML as one of ours: the same sections, with keys, defaults and meanings of its own."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from rl.environments.config_file import Document

KEYS: Mapping[str, frozenset[str]] = {
    section: frozenset(keys.split())
    for section, keys in {
        "model": "name dtype",
        "policy": "max_new_tokens temperature top_p do_sample",
        "env": "type max_turns system_prompt success_reward timeout_penalty test_timeout default_corpus",
        "tools": "code_exec search",
        "rollout": "num_episodes_per_iter",
        "train": "num_iters lr grad_clip norm_adv_by_std learning_rate gamma lam value_coef entropy_coef",
        "eval": "eval_interval num_tasks",
    }.items()
}
"""All keys that it knows."""
OWN: Mapping[str, frozenset[str]] = {
    "policy": frozenset(("do_sample",)),
    "env": frozenset(("default_corpus",)),
    "tools": frozenset(("code_exec",)),
    "train": frozenset(("norm_adv_by_std", "gamma", "lam", "value_coef", "entropy_coef")),
}
"""Those that only it knows."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "policy": {"max_new_tokens": 128, "temperature": 0.7, "top_p": 0.95},
    "rollout": {"num_episodes_per_iter": 4},
    "train": {"num_iters": 1, "grad_clip": 1.0, "seed": 42},
}
ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "code_exec": {"reward_on": "tool_call"},
    "search": {"wrong_answer_ends": False, "max_turns": 4, "timeout_penalty": 0.0},
}
"""Environment to what its settings are unless they are given."""
LARGEST_GROUP = 8
UNUSED = {
    "gamma": "an episode's reward is not discounted",
    "lam": "there is no value model",
    "value_coef": "there is no value model",
    "entropy_coef": "the loss has no entropy term",
    "norm_adv_by_std": "advantages are always divided by their group's standard deviation",
}
"""Key of the section train to why it has no effect."""


class Translation(NamedTuple):
    document: Document
    notes: tuple[str, ...]
    """What the owner should know: defaults that differ from ours, and keys without effect."""


def translate(document: Document) -> Translation | None:
    """None for a file that is not Miniagent's, which has a key that only Miniagent has, or ``train.lr``, which Miniagent
    requires, and no key that Miniagent has not. Raises BadFile."""
    sections = document.values
    is_known = all(
        section in KEYS and _section(sections, section).keys() <= KEYS[section]
        for section in sections
        if section != "eval"
    )
    is_known = is_known and _section(sections, "env").get("type") in (None, *ENVIRONMENTS)
    has_own = any(key in names for section, names in OWN.items() for key in _section(sections, section))
    if not has_own and not (is_known and "lr" in _section(sections, "train")):
        return None
    values = deepcopy(dict(document.values))
    notes = [*_environment(values), *_tools(values, document), *_training(values)]
    evaluation = _section(values, "eval")
    for key in [key for key in evaluation if key not in KEYS["eval"]]:
        del evaluation[key]
        notes.append(f"eval.{key} has no effect")
    return Translation(replace(document, values=values), tuple(notes))


def _section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Empty where it is not there, or is not a mapping, which is told later."""
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _environment(values: dict[str, Any]) -> list[str]:
    env = values.setdefault("env", {})
    if not isinstance(env, dict):
        return []
    looks_up = "search" in _section(values, "tools") or "default_corpus" in env
    kind = env.setdefault("type", "search" if looks_up else "code_exec")
    if kind not in ENVIRONMENTS:
        return []
    changes = {key: value for key, value in ENVIRONMENTS[kind].items() if env.get(key) is None}
    env.update(changes)
    text = ", ".join(f"{key} {str(value).lower()}" for key, value in changes.items())
    notes = [f"read as a file of Miniagent: env has {text} unless it says otherwise"] if text else []
    if kind == "search" and env.pop("test_timeout", None) is not None:
        notes.append("env.test_timeout has no effect: questions have no tests")
    return notes


def _tools(values: dict[str, Any], document: Document) -> list[str]:
    tools, env, notes = _section(values, "tools"), _section(values, "env"), []
    if tools.pop("code_exec", None) is not None:
        notes.append(
            "tools.code_exec has no effect: programs run in the sandbox, by its own Python and in its own folder"
        )
    if env.get("type") == "search":
        return notes + read_search(values, document)
    if tools.pop("search", None) is not None or env.pop("default_corpus", None) is not None:
        env.pop("default_corpus", None)
        notes.append("what is said of searching has no effect: the environment is code_exec")
    return notes


def _training(values: dict[str, Any]) -> list[str]:
    notes = []
    for name, defaults in DEFAULTS.items():
        if isinstance(section := values.setdefault(name, {}), dict):
            section |= {key: value for key, value in defaults.items() if section.get(key) is None}
    if _section(values, "policy").pop("do_sample", None) is False:
        notes.append("policy.do_sample: false has no effect: episodes of one task are compared, so they are sampled")
    train, rollout = _section(values, "train"), _section(values, "rollout")
    unused = {key: train.pop(key, None) for key in UNUSED}
    if unused["norm_adv_by_std"] is True:  # it is so
        unused["norm_adv_by_std"] = None
    notes += [f"train.{key} has no effect: {why}" for key, why in UNUSED.items() if unused[key] is not None]
    if train.get("lr") is not None and train.pop("learning_rate", None) is not None:
        notes.append("train.learning_rate has no effect: train.lr is the learning rate")
    episodes = rollout.get("num_episodes_per_iter")
    if isinstance(episodes, int) and "num_generations" not in rollout and "num_generations" not in train:
        rollout["num_generations"] = group_size(episodes)
        notes.append(
            f"{rollout['num_generations']} episodes of a task are compared with each other: "
            "rollout.num_generations says otherwise"
        )
    return notes


def group_size(episodes: int) -> int:
    """So many episodes of each task that the groups of a step fill it: Miniagent plays one of each, and has groups only
    where a task comes twice."""
    sizes = [size for size in range(2, LARGEST_GROUP + 1) if episodes % size == 0]
    return max(sizes, default=max(2, min(LARGEST_GROUP, episodes)))


SEARCH_DEFAULTS: Mapping[str, Any] = {"timeout": 15, "max_retries": 2, "backoff_factor": 0.8, "max_snippet_chars": 480}


def read_search(values: dict[str, Any], document: Document) -> list[str]:
    """Puts into the values of the file what its section ``tools.search`` means here, with the texts that are searched where
    a task has none. Notes for the owner. Raises BadFile."""
    tools = values.setdefault("tools", {})
    corpus = values["env"].pop("default_corpus", None)
    if corpus is not None and not (isinstance(corpus, list) and all(isinstance(text, str) for text in corpus)):
        raise document.refusal("env.default_corpus must be a list of texts", ("env", "default_corpus"))
    if not isinstance(tools, dict) or not isinstance(tools.setdefault("search", {}), dict):
        return []
    search, notes = tools["search"], []
    own = search.pop("corpus", None)
    fallback = corpus or own
    if search.setdefault("mode", "web" if search and not fallback else "corpus") == "web":
        if fallback:
            notes.append("the corpus has no effect: tools.search.mode is web")
        search.setdefault("provider", "tavily")
        search.setdefault("rate_limit_per_min", None)
    elif fallback:
        search["corpus"] = fallback
    search |= {key: value for key, value in SEARCH_DEFAULTS.items() if search.get(key) is None}
    return notes
