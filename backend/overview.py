"""What ``manage.py`` alone prints: Ratchet's commands by what they are for, then Django's. Standard library alone, and no
command is imported: its line is the beginning of its ``help``, read from its file."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "rl" / "management" / "commands"
GROUPS = {
    "Begin": ("quickstart", "serve", "qcluster", "agent", "doctor", "detect_hardware", "completion"),
    "Collect and rate": (
        "import_traces",
        "sources",
        "api_key",
        "rating_queue",
        "second_answers",
        "instruct",
        "auto_label",
        "calculate_rewards",
        "prompt_template",
    ),
    "Train": (
        "training_plan",
        "train_mpo",
        "train_sft",
        "train_dpo",
        "train_kto",
        "train_reward_model",
        "train_ppo",
        "train_grpo",
        "train_agent",
        "train",
        "run_pipeline",
        "runs",
        "online_learner",
    ),
    "Measure, export, serve": ("evaluate_model", "export_model", "deploy_model", "experiment", "webhooks"),
    "Take out, keep, look after": (
        "export_training_data",
        "training_stats",
        "backup",
        "restore",
        "retention",
        "forget_person",
        "sandbox",
        "modules",
    ),
}
"""Headings to commands; a command that stands nowhere here is Django's, or only does what Django's of that name does."""
DJANGO = {
    "migrate": "Bring the database up to date.",
    "createsuperuser": "Make an account that may do everything.",
    "changepassword": "Give somebody a new password.",
    "shell": "Python, with the models imported.",
    "test": "Set up what the tests need, and run them.",
}


def commands() -> Iterator[str]:
    """Every name of a group."""
    for names in GROUPS.values():
        yield from names


def describe(command: str) -> str:
    """The first sentence of its help. Raises ValueError for a file without one."""
    for node in ast.walk(ast.parse((COMMANDS / f"{command}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["help"]:
            return str(ast.literal_eval(node.value)).split(". ")[0].rstrip(".") + "."
    raise ValueError(f"{command}.py has no help")


def write_overview() -> str:
    """For a terminal of any width."""
    width = max(shutil.get_terminal_size((200, 24)).columns, 60)
    parts = ["Ratchet: every rating makes your model better.", "", "python3 manage.py COMMAND --help says more of one."]
    for heading, names in GROUPS.items():
        parts += ["", heading, *(_line(name, describe(name), width) for name in names)]
    parts += ["", "Django's own (all: python3 manage.py help --commands)"]
    return "\n".join([*parts, *(_line(name, text, width) for name, text in DJANGO.items())])


def _line(name: str, text: str, width: int) -> str:
    line = f"  {name:<21}{text}"
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
