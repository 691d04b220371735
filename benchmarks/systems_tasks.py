"""The job of Miniagent's agents, measured by what they do and not by what they say: programs that a call of their tool runs
and tests."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs_site import Site

Row = dict[str, Any]
YAML: Final = """\
model: {name: smollm2}
policy: {max_new_tokens: 128, temperature: 0.7, top_p: 0.95, do_sample: true}
env: {type: code_exec, max_turns: 3, success_reward: 1.0, timeout_penalty: 0.0, test_timeout: 5.0}
tools: {code_exec: {python_executable: python}}
rollout: {num_episodes_per_iter: 4}
train: {num_iters: 1, lr: 1.0e-5, grad_clip: 1.0, norm_adv_by_std: true}
eval: {eval_interval: 0, num_tasks: 64}
"""
"""Miniagent's own, with its defaults."""
_WORDS: Final = ("river", "lantern", "orchard", "violin", "harbour", "pepper", "window", "blanket")


def _number(rng: random.Random) -> str:
    return str(rng.randrange(2, 40))


def _numbers(rng: random.Random) -> str:
    return " ".join(_number(rng) for _ in range(5))


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS)


_FORMS: Final[tuple[tuple[tuple[str, ...], str, Callable[[random.Random], str]], ...]] = (
    (
        ("Read a number and print it times {k}.", "Print the number on stdin multiplied by {k}."),
        "print(int(input()) * {k})",
        _number,
    ),
    (
        ("Read a number and print it plus {k}.", "Add {k} to the number on stdin and print the sum."),
        "print(int(input()) + {k})",
        _number,
    ),
    (
        ("Read a word and print it {k} times in a row.", "Repeat the word on stdin {k} times, without blanks."),
        "print(input() * {k})",
        _word,
    ),
    (
        ("Read a word and print its first {k} letters.", "Print the beginning of the word on stdin, {k} letters."),
        "print(input()[:{k}])",
        _word,
    ),
    (
        ("Read numbers and print how many are greater than {k}.", "Count the numbers on stdin above {k}."),
        "print(sum(int(x) > {k} for x in input().split()))",
        _numbers,
    ),
    (
        (
            "Read a number and print yes if {k} divides it, else no.",
            "Is the number on stdin a multiple of {k}? Print yes or no.",
        ),
        "print('no' if int(input()) % {k} else 'yes')",
        _number,
    ),
)
"""How a task is put, the program that solves it, what it reads; ``k``: a number that the tasks for training and those
that are held out do not share."""


def programs(count: int, *, test: bool, seed: int = 1) -> list[Row]:
    """Tasks of Miniagent's form, each text once."""
    rng = random.Random(f"programs {seed} {test}")
    tasks: dict[str, Row] = {}
    while len(tasks) < count:
        asked, program, read = rng.choice(_FORMS)
        k = rng.choice(range(3, 20, 3) if test else [k for k in range(2, 20) if k % 3])
        prompt, program = rng.choice(asked).format(k=k), program.format(k=k)
        tests = [{"input": text, "output": _run(program, text)} for text in (read(rng), read(rng), read(rng))]
        tasks[prompt] = {
            "prompt": prompt,
            "language": "python",
            "ground_truth": program,
            "tests": tests,
        }
    return [
        {"task_id": f"{'eval' if test else 'train'}-{number}", **task} for number, task in enumerate(tasks.values())
    ]


def _run(program: str, text: str) -> str:
    said: list[str] = []
    exec(program, {"input": lambda: text, "print": lambda value: said.append(str(value))})
    return said[0]


def train_miniagent(site: Site, rows: int, test: int, *options: str) -> Row:
    """``train_agent`` as Miniagent's people type it, and tasks solved by the base model and by what was made."""
    folder = site.folder / "dataset"
    folder.mkdir()
    for split, count in (("train", rows), ("eval", test)):
        lines = [json.dumps(task) + "\n" for task in programs(count, test=split == "eval")]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    file = site.folder / "code.yaml"
    file.write_text(YAML.replace("num_tasks: 64", f"num_tasks: {test}"), encoding="utf-8")
    splits = ("--dataset-dir", str(folder), "--train-split", "train", "--eval-split", "eval")
    led_to = site.train("--config", str(file), *splits, "--sft-first", *options, method="agent")
    return led_to | _counted(led_to, test)


def _counted(led_to: Mapping[str, Any], of: int) -> Row:
    models = led_to.get("models") or {}
    return {
        name: {"right": round(of * models[own]["reward"]["value"]), "of": of}
        for name, own in (("before", "base"), ("after", "new"))
        if own in models
    }
