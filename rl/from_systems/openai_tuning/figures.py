"""What a step of a run measured, by OpenAI's names."""

from typing import Any


def figures_of(step: int, values: dict[str, Any]) -> dict[str, Any]:
    """The figures of one step by OpenAI's names; None: not measured."""
    names = {
        "train_loss": "loss",
        "train_mean_token_accuracy": "mean_token_accuracy",
        "valid_loss": "eval_loss",
        "valid_mean_token_accuracy": "eval_mean_token_accuracy",
    }
    rewards = {"train_mean_reward": values["reward"]} if "reward" in values else {}
    return {"step": step, **{theirs: values.get(ours) for theirs, ours in names.items()}, **rewards}
