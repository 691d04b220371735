"""Training on whole runs: the model's own turns are learned, and what tools and users say is read."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference

from rl.base.leaves import leaf
from rl.base.records import silent
from rl.config import find_method
from rl.lm.log_probs import pad_sequences
from rl.training import dpo
from rl.training.dpo import OwnTokens
from rl.training.grpo import StoredRollouts
from rl.training.imitating import collate
from tests.data_formatter.test_runs import TOOLS, answered, looked
from tests.training.conftest import SMALL, Listener, job

pytestmark = pytest.mark.learn


PROMPT, RUN, OTHER = [1, 2], [3, 4, ~5, ~6, 7], [8, ~9, 10]


def run_rows(count: int = 8) -> list[dict[str, object]]:
    return [
        {
            "prompt": [{"role": "user", "content": f"Question number {number}?"}],
            "chosen": [*looked(f"page {number}"), answered("Thank you.")],
            "rejected": [answered("Thank you.")],
            "tools": list(TOOLS),
            "prompt_key": f"q{number}",
        }
        for number in range(count)
    ]


def test_trl_learns_the_own_tokens_alone():
    pairs = OwnTokens(DataCollatorForPreference(0))([{"prompt_ids": PROMPT, "chosen_ids": RUN, "rejected_ids": OTHER}])
    assert pairs["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6, 7], [1, 2, 8, 9, 10, 0, 0]]
    assert pairs["completion_mask"].tolist() == [[0, 0, 1, 1, 0, 0, 1], [0, 0, 1, 0, 1, 0, 0]]
    row = {"prompt_ids": PROMPT, "completion_ids": RUN, "KL_completion_ids": OTHER, "label": True}
    singles = OwnTokens(DataCollatorForUnpairedPreference(0))([row, row])
    assert singles["KL_input_ids"][0].tolist() == [1, 2, 8, 9, 10]
    assert singles["KL_completion_mask"][0].tolist() == [0, 0, 1, 0, 1]
    assert singles["completion_mask"][0].tolist() == [0, 0, 1, 1, 0, 0, 1]


def test_log_probabilities_and_imitation_leave_out_the_tokens_of_others():
    labels = [-100, -100, 3, 4, -100, -100, 7]
    batch = pad_sequences([(PROMPT, RUN)])
    assert (batch["input_ids"].tolist(), batch["labels"].tolist()) == ([[1, 2, 3, 4, 5, 6, 7]], [labels])
    learned = collate([{"prompt_ids": PROMPT, "answer_ids": RUN}])
    assert (learned["input_ids"].tolist(), learned["labels"].tolist()) == ([[1, 2, 3, 4, 5, 6, 7]], [labels])


def test_stored_runs_of_a_group_come_with_their_mask():
    groups = [{"prompt_ids": PROMPT, "answers": [RUN, OTHER], "rewards": [1.0, 0.0]}]
    trainer = SimpleNamespace(accelerator=SimpleNamespace(process_index=0), state=SimpleNamespace(global_step=0))
    rollouts = StoredRollouts(groups, 2, 7)(["0", "0"], trainer)
    assert sorted(rollouts["completion_ids"]) == [[3, 4, 5, 6, 7], [8, 9, 10]]
    assert sorted(rollouts["env_mask"]) == [[1, 0, 1], [1, 1, 0, 0, 1]]


def rows_for(method: str) -> list[dict[str, object]]:
    pairs = run_rows()
    if method in ("dpo", "mpo", "reward_model"):
        return [{**pair, "weight": 1.0} for pair in pairs]
    shared = [{name: pair[name] for name in ("prompt", "tools", "prompt_key")} for pair in pairs]
    if method == "grpo":
        groups = [{"completions": [pair["chosen"], pair["rejected"]], "rewards": [1.0, 0.0]} for pair in pairs]
        return [{**base, **group} for base, group in zip(shared, groups, strict=True)]
    return [
        {**base, "completion": pair[side], "label": side == "chosen"}
        for base, pair in zip(shared, pairs, strict=True)
        for side in ("chosen", "rejected")
    ]


@pytest.mark.parametrize("method", ["dpo", "kto", "mpo", "grpo", "reward_model"])
def test_every_method_trains_on_runs(method, tiny_base, tmp_path):
    made = job(tiny_base, tmp_path, rows_for(method))
    options = {**SMALL, "max_length": 512, "max_steps": 2, "epochs": 1.0}
    options |= {"rollouts": "offline", "num_generations": 2, "batch_size": 4} if method == "grpo" else {}
    config = find_method(method).config().with_overrides(options)
    result = leaf(find_method(method).module).train(replace(made, config=config), silent)
    assert result.steps == 2
    assert result.metrics["dropped_rows"] == 0
    assert result.final_loss == result.final_loss, "a number"


def test_an_answer_that_calls_a_tool_becomes_likelier_than_the_same_words_without(tiny_base, tmp_path):
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, run_rows(), max_length=512), listener)
    margins = [
        values["metrics"]["margin"] for event, values in listener.events if "margin" in values.get("metrics", {})
    ]
    assert margins[-1] > margins[0] >= 0
