"""What a job is asked for with, as the ``fine_tuning.jobs.create`` of OpenAI's clients sends it."""

import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from rl import registered
from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.from_systems.openai_tuning.calls import TuningRefused
from rl.from_systems.openai_tuning.graders import GraderInvalid, validate
from rl.from_systems.openai_tuning.job_work import WANDB
from rl.from_systems.openai_tuning.lineage import TUNED
from rl.serving.gateway.fields import check_field
from rl.serving.gateway.refusals import Refusal

FIELDS: Final = (
    *("model", "training_file", "validation_file", "hyperparameters", "method", "seed", "suffix"),
    *("metadata", "integrations"),
)
_COMMON: Final = {"batch_size": (1, 1024), "learning_rate_multiplier": (0.001, 1000), "n_epochs": (1, 1000)}
NUMBERS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "supervised": _COMMON,
    "dpo": {**_COMMON, "beta": (0, 2)},
    "reinforcement": {
        **_COMMON,
        "compute_multiplier": (0.001, 10),
        "eval_interval": (1, 10**6),
        "eval_samples": (1, 10**4),
    },
}
"""Type of method to its hyper-parameters with the least and the largest number; each may be ``auto``."""
WHOLE: Final = frozenset({"batch_size", "n_epochs", "eval_interval", "eval_samples"})
UNUSED: Final = ("compute_multiplier", "reasoning_effort")
"""Those that a job says that it does not use, where they are given."""
WANDB_FIELDS: Final = frozenset({"project", "name", "tags", "entity"})
"""The last is not used: the account is the operator's."""
MOST_MODEL, MOST_SUFFIX, MOST_PAIRS, MOST_KEY, MOST_VALUE = 200, 64, 16, 64, 512


def read_job(body: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a TuningJob. Raises TuningRefused that names the field."""
    for name in ("model", "training_file"):
        if not body.get(name):
            raise TuningRefused(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return {
        "model": _base_model(body["model"]),
        "training_file": _text(body, "training_file", 64),
        "validation_file": _text(body, "validation_file", 64),
        "method": _method(body),
        "seed": _seed(body.get("seed")),
        "suffix": _text(body, "suffix", MOST_SUFFIX),
        "metadata": _metadata(body.get("metadata")),
        "integrations": _integrations(body.get("integrations")),
    }


def _base_model(name: object) -> str:
    """Leaves the name of what was tuned as it is. Raises TuningRefused for one that the operator has not registered."""
    if isinstance(name, str) and name.startswith(TUNED) and len(name) <= MOST_MODEL:
        return name
    try:
        registered.base_model(str(name))
    except UsageError as error:
        message = f"Model {str(name)[:100]} is not available for fine-tuning or does not exist: {error}"
        raise TuningRefused(message, "model", "model_not_available") from None
    return str(name)


def _text(body: Mapping[str, Any], name: str, longest: int) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest:
        raise TuningRefused(f"{name} must be text of at most {longest} characters", name, "invalid_value")
    return value


def _seed(value: object) -> int:
    """A seed that is not given is drawn."""
    if value is None:
        return secrets.randbelow(2**31)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise TuningRefused("seed must be a whole number from 0 to 2147483647", "seed", "invalid_value")
    return value


def _method(body: Mapping[str, Any]) -> dict[str, Any]:
    """The older form has the hyper-parameters of a supervised job beside the model."""
    method = body.get("method")
    if method is None:
        method = {"type": "supervised", "supervised": {"hyperparameters": body.get("hyperparameters") or {}}}
    elif body.get("hyperparameters"):
        raise TuningRefused("hyperparameters stand within method", "hyperparameters", "invalid_value")
    if not isinstance(method, dict) or str(method.get("type")) not in NUMBERS:
        raise TuningRefused(f"method.type must be one of {', '.join(NUMBERS)}", "method.type", "invalid_value")
    kind = str(method["type"])
    settings = method.get(kind) or {}
    known = ("hyperparameters", *(("grader", "response_format") if kind == "reinforcement" else ()))
    _require_fields(settings, f"method.{kind}", known)
    of_kind = {**settings, "hyperparameters": _hyperparameters(settings.get("hyperparameters") or {}, kind)}
    if kind == "reinforcement":
        of_kind |= {"grader": _grader(settings.get("grader")), **_response_format(settings)}
    return {"type": kind, kind: of_kind}


def _grader(value: object) -> dict[str, Any]:
    try:
        return validate(value, "method.reinforcement.grader")
    except GraderInvalid as error:
        raise TuningRefused(str(error), error.param, "invalid_grader") from None


def _response_format(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same that the gateway takes with a question."""
    try:
        return check_field("response_format", settings)
    except Refusal as error:
        raise TuningRefused(str(error), f"method.reinforcement.{error.param}", "invalid_value") from None


def _require_fields(values: object, name: str, known: tuple[str, ...]) -> None:
    if not isinstance(values, dict):
        raise TuningRefused(f"{name} must be an object", name, "invalid_type")
    for key in values:
        if key not in known:
            raise TuningRefused(unknown_name("parameter", f"{name}.{key}", known), f"{name}.{key}", "unknown_parameter")


def _hyperparameters(values: object, kind: str) -> dict[str, Any]:
    name = f"method.{kind}.hyperparameters"
    efforts = {"reasoning_effort"} if kind == "reinforcement" else set()
    _require_fields(values, name, (*NUMBERS[kind], *efforts))
    assert isinstance(values, dict)  # noqa: S101  looked at above
    for key, (low, high) in NUMBERS[kind].items():
        value = values.get(key, "auto")
        whole = isinstance(value, int) or key not in WHOLE
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and whole and low <= value <= high
        if value is not None and value != "auto" and not is_number:
            kinds = "a whole number" if key in WHOLE else "a number"
            message = f"{name}.{key} must be auto or {kinds} from {low:g} to {high:g}, not {value!r:.50}"
            raise TuningRefused(message, f"{name}.{key}", "invalid_value")
    return {**dict.fromkeys(NUMBERS["supervised"], "auto"), **{key: of for key, of in values.items() if of is not None}}


def _metadata(value: object) -> dict[str, str]:
    if value is None:
        return {}
    pairs = value.items() if isinstance(value, dict) and len(value) <= MOST_PAIRS else [("", None)]
    if any(len(key) > MOST_KEY or not isinstance(text, str) or len(text) > MOST_VALUE for key, text in pairs):
        what = f"at most {MOST_PAIRS} pairs of text, keys of {MOST_KEY} characters and values of {MOST_VALUE}"
        raise TuningRefused(f"metadata must have {what}", "metadata", "invalid_value")
    return dict(pairs)


def _integrations(value: object) -> list[Any]:
    """Weights and Biases alone, where its package is here."""
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(of, dict) and of.get("type") == WANDB for of in value):
        raise TuningRefused("integrations must be a list of objects of the type wandb", "integrations", "invalid_value")
    if not find_spec(WANDB):
        raise TuningRefused("the package wandb is not installed here", "integrations", "integration_not_available")
    if len(value) > 1 or not _is_wandb(value[0].get(WANDB)):
        what = f"one with a project, and a name and up to {MOST_PAIRS} tags if you like, of {MOST_KEY} characters each"
        raise TuningRefused(f"integrations must be {what}", "integrations", "invalid_value")
    return value


def _is_wandb(value: object) -> bool:
    if not isinstance(value, dict) or not value.get("project") or not value.keys() <= WANDB_FIELDS:
        return False
    tags = value.get("tags") or []
    texts = [value[name] for name in WANDB_FIELDS - {"tags"} if value.get(name) is not None]
    bounded = isinstance(tags, list) and len(tags) <= MOST_PAIRS
    return bounded and all(isinstance(text, str) and len(text) <= MOST_KEY for text in [*texts, *tags])
