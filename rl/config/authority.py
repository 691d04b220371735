"""Who may set what. A field that no table here names belongs to the operator.

The operator sets things on the machine: files, the command line, ``.env``. A trainer is whoever has a key with the scope
``train``, or may change agents in the admin: numbers, switches and enumerated words, within their bounds. In between are
choices: a trainer names what the operator registered under that name. Commands, addresses, paths, modules and names of
environment variables are always the operator's."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.config.methods import METHODS


class Owner(StrEnum):
    TRAINER = "trainer"
    CHOICE = "choice"
    OPERATOR = "operator"


def _assign(owner: Owner, names: str) -> dict[str, Owner]:
    return dict.fromkeys(names.split(), owner)


HYPER_PARAMETERS: Mapping[str, Owner] = {
    **_assign(
        Owner.TRAINER,
        """
        automatic epochs max_steps full sft_epochs sft_learning_rate batch_size gradient_accumulation learning_rate
        learning_rate_multiplier
        warmup_ratio beta train_layers lora_r lora_alpha lora_dropout max_length max_grad_norm most_kl thinks
        instruction instruction_place precision quantize_base
        activation_checkpointing fast save_steps seed
        bake_in rollouts num_generations temperature top_p max_new_tokens loss_type vllm
        policy_type async_rollout_workers eval_interval eval_tasks curriculum device
        mini_batch_size init_kl_coef target_kl kl_horizon missing_eos_penalty gamma lam cliprange cliprange_value vf_coef
        ppo_epochs top_k
        balance_classes preferences preference_loss label_smoothing sft_weight fresh_answers weigh_raters center_rewards
        """,
    ),
    **_assign(Owner.CHOICE, "vllm_server environment"),
}
"""Who may set each hyper-parameter of any method: the fields of the configurations in METHODS."""

RUN_OPTIONS: Mapping[str, Owner] = {
    **_assign(Owner.TRAINER, "data sweep export quantization deploy name_by_feedback grader"),
    **_assign(Owner.TRAINER, "answer_schema keep_passes eval_prompts eval_every tracked_as"),
    **_assign(Owner.CHOICE, "base_model reward_model"),
    **_assign(
        Owner.OPERATOR,
        """
        source data_file ratings_file output_dir model_name rewards report_to dataset_dir train_split eval_split
        num_processes accelerate_config origins
        """,
    ),
}
"""What a run is told beside its hyper-parameters: fields of RunOptions."""

DATA_OPTIONS: Mapping[str, Owner] = _assign(
    Owner.TRAINER, "pair_type max_pairs_per_question val_split min_confidence min_samples sessions"
)
"""Which rows a run learns from: fields of DataOptions."""

AGENT: Mapping[str, Owner] = {
    **_assign(
        Owner.TRAINER,
        """
        name description system_prompt context_length response_length pair_type preset reward_weights decision_weights
        answer_format answer_kind answer_values answer_schema keep_to_answers larger_agent unsure_below
        label_threshold auto_label_threshold gate_margin guard_limits online_learning min_samples_to_retrain
        retrain_interval_hours auto_export rater_cap second_answers auto_deploy deploy_target keep_versions
        export_quantization training_overrides thinks promoted_by group_by
        """,
    ),
    **_assign(Owner.CHOICE, "base_model judge prompt_template answer_template"),
}
"""Fields of an agent, as the admin edits them. ``training_overrides`` holds HYPER_PARAMETERS, each as that table says."""


def owner(table: Mapping[str, Owner], name: str) -> Owner:
    return table.get(name, Owner.OPERATOR)


def require_trainers(values: Mapping[str, Any]) -> None:
    """Checks that a trainer may set these hyper-parameters. Raises UsageError for one that no method has, that a
    trainer may not set, or whose value is not a name where he may only choose by name; no other value is read."""
    every = {field.name for method in METHODS.values() for field in fields(method.config)}
    if unknown := sorted(set(values) - every):
        raise UsageError(unknown_name("hyper-parameter", unknown[0], sorted(every)))
    for name, value in values.items():
        who = owner(HYPER_PARAMETERS, name)
        if value is None or who is Owner.TRAINER:
            continue
        if who is Owner.OPERATOR:
            raise UsageError(
                f"{name} is for the operator alone, who sets it on the machine; see 'Who may set what' in docs/security.md"
            )
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a name that the operator registered; its settings are the operator's")


def choices(values: Mapping[str, Any]) -> dict[str, str]:
    """The hyper-parameters among ``values`` that are names of what the operator registered."""
    return {name: value for name, value in values.items() if value and owner(HYPER_PARAMETERS, name) is Owner.CHOICE}


def without_choices(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if owner(HYPER_PARAMETERS, name) is not Owner.CHOICE}


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Checks the hyper-parameters that a trainer sets. Raises UsageError for one that no method has, or that is not a
    trainer's, or a value that is impossible for a method that has it. Whether a name is registered is not looked up."""
    require_trainers(overrides)
    own = without_choices(overrides)
    for method in METHODS.values():
        known = {field.name for field in fields(method.config)}
        method.config().with_overrides({name: value for name, value in own.items() if name in known})


def operators_settings(table: Mapping[str, Owner], values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Names of the values that only the operator can have set: those that are not a trainer's, and not the default."""
    return [
        name
        for name, value in values.items()
        if owner(table, name) is not Owner.TRAINER and value != defaults.get(name)
    ]
