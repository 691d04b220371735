"""What every method must be able to do, and the test that shows it. ``pytest -s`` of this file prints the table."""

import ast
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from rl.config import METHODS

ASPECTS = ("learns", "resumes", "cancels", "dry run", "two processes")
TOGETHER = "tests/lm/test_processes.py"
EVIDENCE: dict[str, tuple[str, ...]] = {
    "mpo": (
        "tests/training/test_mpo.py::test_good_answers_to_new_questions_become_likelier_than_bad_ones",
        "tests/training/test_mpo.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/training/test_mpo.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_on_rows.py::test_the_dry_run_counts_rows",
        f"{TOGETHER}::test_mpo_learns_in_two_processes",
    ),
    "sft": (
        "tests/training/test_sft.py::test_accepted_answers_to_new_questions_become_likelier",
        "tests/training/test_sft.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/training/test_sft.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_on_rows.py::test_the_dry_run_counts_rows",
        f"{TOGETHER}::test_sft_learns_in_two_processes",
    ),
    "dpo": (
        "tests/training/test_dpo.py::test_good_answers_to_new_questions_become_likelier_than_bad_ones",
        "tests/training/test_dpo.py::test_a_killed_training_resumes_to_the_same_losses_and_adapter",
        "tests/commands/test_train_dpo.py::test_a_second_run_of_the_same_agent_is_refused_and_a_cancel_in_the_database_stops_the_first",
        "tests/commands/test_train_dpo.py::test_the_dry_run_says_what_would_happen_and_writes_nothing",
        f"{TOGETHER}::test_two_processes_that_stop_and_go_on_have_the_losses_of_one",
    ),
    "kto": (
        "tests/training/test_kto.py::test_good_answers_to_new_questions_become_likelier_than_bad_ones",
        "tests/training/test_kto.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/training/test_kto.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_on_rows.py::test_the_dry_run_counts_rows",
        f"{TOGETHER}::test_kto_learns_in_two_processes",
    ),
    "grpo": (
        "tests/training/test_grpo.py::test_rewarded_answers_to_new_questions_become_likelier",
        "tests/training/test_grpo.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/training/test_grpo.py::test_a_stopped_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_grpo.py::test_the_dry_run_counts_prompts_and_the_tokens_that_are_to_be_generated",
        f"{TOGETHER}::test_grpo_on_stored_answers_in_two_processes_has_the_losses_of_one",
    ),
    "agent": (
        "tests/training/agent/test_train.py::test_what_is_rewarded_in_a_later_turn_becomes_likelier",
        "tests/training/agent/test_train.py::test_a_killed_training_resumes_to_the_same_adapter",
        "tests/training/agent/test_train.py::test_a_cancelled_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_agent_options.py::test_the_dry_run_counts_tasks_and_leaves_nothing",
        f"{TOGETHER}::test_episodes_in_two_processes_that_stop_and_go_on_have_the_losses_of_one",
    ),
    "reward_model": (
        "tests/training/test_reward_model.py::test_it_learns_what_shuffled_pairs_do_not_teach",
        "tests/training/test_reward_model.py::test_a_stopped_training_resumes_to_the_same_model",
        "tests/training/test_reward_model.py::test_a_stopped_training_resumes_to_the_same_model",
        "tests/commands/test_train_on_rows.py::test_the_dry_run_counts_rows",
        f"{TOGETHER}::test_a_reward_model_learns_in_two_processes",
    ),
    "ppo": (
        "tests/training/ppo/test_train.py::test_it_learns_what_is_rewarded_and_nothing_from_random_rewards",
        "tests/training/ppo/test_train.py::test_a_killed_training_resumes_to_the_same_adapter",
        "tests/training/ppo/test_train.py::test_an_interrupted_training_resumes_to_the_same_adapter",
        "tests/commands/test_train_ppo.py::test_the_dry_run_counts_prompts_and_batches",
        f"{TOGETHER}::test_ppo_in_two_processes_that_stop_and_go_on_has_the_losses_of_one",
    ),
}


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse(Path(settings.BASE_DIR, path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_the_table_has_every_method():
    assert EVIDENCE.keys() == METHODS.keys()
    width = max(map(len, METHODS)) + 2
    print("\n" + " " * width + "".join(f"{aspect:16}" for aspect in ASPECTS))  # noqa: T201
    for method, tests in EVIDENCE.items():
        print(f"{method:{width}}" + "".join(f"{'yes':16}" for _ in tests))  # noqa: T201


@pytest.mark.parametrize("method", EVIDENCE)
@pytest.mark.parametrize("number", range(len(ASPECTS)), ids=ASPECTS)
def test_a_test_shows_it(method: str, number: int):
    path, _, name = EVIDENCE[method][number].partition("::")
    assert name in names_in(path)
