"""A field of a model, or a hyper-parameter of a method, is in all places that have such things, or stands here as left out
on purpose. Who adds one and forgets a place reads here which."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.admin import site
from django.core.management import load_command_class
from django.db.models import Model
from rest_framework.serializers import BaseSerializer

from rl.base.records import FeedbackRecord, TraceRecord
from rl.collect.feedback import imported_feedback
from rl.collect.feedback.events import CONTENT
from rl.collect.traces.imported import ImportedFeedback
from rl.config import METHODS, config_class
from rl.config.rubrics import ASKED
from rl.models import Feedback, RatingQueue, Trace
from rl.web.api.serializers.traces import FEEDBACK_IN, FeedbackOut, TraceIn, TraceOut
from rl.web.api.training import RunOut

ROOT = Path(settings.BASE_DIR)
Names = frozenset[str]


def test_a_rubric_says_what_it_asks_is_drawn_and_is_in_the_docs() -> None:
    drawn = (ROOT / "static/rl/rate_rubrics.js").read_text().partition("const RUBRICS = {")[2].partition("};")[0]
    (line,) = [line for line in (ROOT / "docs/queues.md").read_text().splitlines() if line.startswith("| `rubric` |")]
    missing = {
        "rl/config/rubrics.py, ASKED": set(RatingQueue.Rubric.values) - ASKED.keys(),
        "static/rl/rate_rubrics.js, RUBRICS": set(RatingQueue.Rubric.values) - set(re.findall(r"\w+", drawn)),
        "docs/queues.md, the row `rubric`": set(RatingQueue.Rubric.values) - set(re.findall(r"`(\w+)`", line)),
    }
    assert {place: names for place, names in missing.items() if names} == {}
    assert ASKED.keys() == set(RatingQueue.Rubric.values)
    assert {asked.scale for asked in ASKED.values()} - {""} == set(Feedback.Scale.values)


def test_the_docs_name_each_field_of_a_run_in_the_api() -> None:
    page = (ROOT / "docs/api.md").read_text()
    section = page.partition("### `GET /api/v1/runs/{id}/`")[2].partition("\n### ")[0]
    assert set(RunOut().fields) - set(re.findall(r"`(\w+)`", section)) == set()


# --- fields of models --------------------------------------------------------------------------------------------------


def taken_in(*serializers: BaseSerializer, renamed: Mapping[str, str] | None = None) -> Names:
    """Names of fields that bodies may have. ``renamed``: the API's name to the model's."""
    return frozenset((renamed or {}).get(name, name) for each in serializers for name in each.fields)


def given_out(serializer: BaseSerializer, model: type[Model]) -> Names:
    sources = (str(field.source).partition(".")[0] for field in serializer.fields.values())
    return frozenset(name_of(model, source) for source in sources)


def shown_in_admin(model: type[Model], computed: Mapping[str, str]) -> Names:
    """``computed``: a method of the admin's class to the field that it shows."""
    shown = [name for _, options in site._registry[model].fieldsets or () for name in options["fields"]]
    return frozenset(computed.get(name, name) for name in shown)


def in_template(name: str, variable: str, model: type[Model]) -> Names:
    text = (ROOT / "templates/rl" / name).read_text()
    attributes = re.findall(rf"\b{variable}\.(?:get_)?(\w+)", text)
    return frozenset(name_of(model, attribute.removesuffix("_display")) for attribute in attributes)


def name_of(model: type[Model], attribute: str) -> str:
    """``trace_id`` is the field ``trace``."""
    return {field.attname: field.name for field in model._meta.concrete_fields}.get(attribute, attribute)


def columns_of(record: type, renamed: Mapping[str, str] | None = None) -> Names:
    """``renamed``: the record's name to the model's."""
    return frozenset((renamed or {}).get(field.name, field.name) for field in fields(record))


def read_in(function: Callable[..., object], variable: str) -> Names:
    return frozenset(re.findall(rf"\b{variable}\.(\w+)", inspect.getsource(function)))


FEEDBACK: dict[str, Names] = {
    "rl/web/api/serializers/traces.py, feedback in": taken_in(
        *(serializer() for serializer in FEEDBACK_IN.values()), renamed={"value": "raw_value"}
    ),
    "rl/web/api/serializers/traces.py, feedback out": given_out(FeedbackOut(), Feedback),
    "rl/admin/feedback.py": shown_in_admin(
        Feedback, {"answer": "trace", "other": "other_trace", "learned_in": "training_set", "withdrew": "retracts"}
    ),
    "templates/rl/trace.html": in_template("trace.html", "event", Feedback),
    "rl/base/records.py, FeedbackRecord": columns_of(FeedbackRecord),
    "rl/collect/feedback/events.py": frozenset(name_of(Feedback, name) for name in CONTENT),
    "rl/collect/traces/imported.py, ImportedFeedback": columns_of(
        ImportedFeedback, {"value": "raw_value", "other_external_id": "other_trace"}
    ),
}
IMPORTED_FEEDBACK: dict[str, Names] = {
    "rl/collect/feedback/imported_feedback.py": read_in(imported_feedback._checked_event, "feedback")
    | read_in(imported_feedback.event_of, "feedback"),
}
TRACE: dict[str, Names] = {
    "rl/web/api/serializers/traces.py, in": taken_in(TraceIn()),
    "rl/web/api/serializers/traces.py, out": given_out(TraceOut(), Trace),
    "rl/admin/feedback.py, traces": shown_in_admin(
        Trace,
        {
            "version": "model_version",
            "conversation": "prompt",
            "answer": "response",
            "extras": "details",
            "components": "rewards",
        },
    ),
    "rl/base/records.py, TraceRecord": columns_of(TraceRecord),
}
# What rewards and exports read of both is in the records.
LEFT_OUT: dict[str, dict[str, str]] = {
    "rl/web/api/serializers/traces.py, feedback in": {
        "Ratchet sets it": "id created_at source api_key address value is_current training_set quarantine",
        "raters of the API do not sign in": "user",
        "has calls of its own": "retracts",
    },
    "rl/web/api/serializers/traces.py, feedback out": {
        "nothing that clients can look up": "api_key user address training_set quarantine",
    },
    "rl/admin/feedback.py": {"stands in the heading": "id", "a hash that only Ratchet reads": "address"},
    "templates/rl/trace.html": {
        "is what the page is about": "agent trace",
        "a hash that only Ratchet reads": "address",
        "for the admin": "id created_at source api_key user retracts training_set quarantine",
    },
    "rl/base/records.py, FeedbackRecord": {
        "says nothing about the answer": "id created_at source api_key user address notes training_set",
        "is in the record around it": "agent trace",
        "only current events are read": "is_current retracts quarantine",
        "the value is normalised": "scale",
        "rewards look at one answer": "other_trace",
    },
    "rl/collect/feedback/events.py": {
        "is whose it is and what it is about": "agent trace kind rater",
        "says when and by which way it came": "created_at rated_at source api_key user address",
        "follows from scale and raw_value": "value",
        "is what became of it": "id is_current retracts training_set quarantine",
    },
    "rl/collect/traces/imported.py, ImportedFeedback": {
        "Ratchet sets it": "id created_at source value is_current training_set quarantine",
        "is in the record around it": "agent trace",
        "raters of a file do not sign in": "api_key user address",
        "files take nothing back": "retracts",
    },
    "rl/web/api/serializers/traces.py, in": {
        "Ratchet sets it": "id created_at source prompt_key",
        "Ratchet finds it out": "reward rewards rewarded_at reward_pending",
        "the gateway sets it": "arm unit",
        "the receiver of spans sets it": "otel_trace_id",
    },
    "rl/web/api/serializers/traces.py, out": {
        "the page and the admin show them": "reward rewards rewarded_at reward_pending",
        "is said of the experiment": "arm unit",
        "is for joining spans": "otel_trace_id",
    },
    "rl/admin/feedback.py, traces": {"is said of the experiment": "arm unit", "is for joining spans": "otel_trace_id"},
    "rl/base/records.py, TraceRecord": {
        "says nothing about the answer": "external_id session_id source model_version occurred_at created_at "
        "arm unit otel_trace_id",
        "is what the record is read for": "reward rewards rewarded_at reward_pending",
    },
}
"""Place to the reason to the fields that are left out for it."""


@pytest.mark.parametrize("place", FEEDBACK)
def test_every_field_of_feedback_is_there_or_left_out_on_purpose(place: str):
    check({field.name for field in Feedback._meta.concrete_fields}, place, FEEDBACK[place], LEFT_OUT)


@pytest.mark.parametrize("place", IMPORTED_FEEDBACK)
def test_every_field_of_imported_feedback_is_stored(place: str):
    check(set(columns_of(ImportedFeedback)), place, IMPORTED_FEEDBACK[place], LEFT_OUT)


@pytest.mark.parametrize("place", TRACE)
def test_every_field_of_a_trace_is_there_or_left_out_on_purpose(place: str):
    check({field.name for field in Trace._meta.concrete_fields}, place, TRACE[place], LEFT_OUT)


def check(known: set[str], place: str, there: Names, table: Mapping[str, Mapping[str, str]]) -> None:
    left_out = {name for names in table.get(place, {}).values() for name in names.split()}
    missing = sorted(known - there - left_out)
    assert not missing, (
        f"{place} does not have {missing}: add it there, or to what is left out in {Path(__file__).name}"
    )
    assert sorted(left_out & there | left_out - known) == [], (
        f"{place} has them, or nothing does: they are not left out"
    )


def test_a_forgotten_place_is_named():
    with pytest.raises(AssertionError, match=r"the page does not have \['mood'\]: add it there"):
        check({"id", "mood"}, "the page", frozenset({"id"}), {})


def test_what_is_not_left_out_any_more_is_named():
    with pytest.raises(AssertionError, match="the page has them"):
        check({"id"}, "the page", frozenset({"id"}), {"the page": {"why": "id"}})


# --- hyper-parameters of methods ---------------------------------------------------------------------------------------

RARE = (
    "automatic activation_checkpointing instruction instruction_place learning_rate_multiplier lora_dropout max_grad_norm "
    "most_kl precision thinks warmup_ratio"
)
WITHOUT_OPTION: dict[str, dict[str, str]] = {
    "train_mpo": {"presets and agents set it": f"{RARE} balance_classes preferences"},
    "train_sft": {"presets and agents set it": f"{RARE} balance_classes", "has no reference": "beta"},
    "train_dpo": {"presets and agents set it": RARE},
    "train_kto": {"presets and agents set it": RARE},
    "train_grpo": {"presets and agents set it": RARE},
    "train_ppo": {"presets and agents set it": RARE, "PPO has init_kl_coef": "beta"},
    "train_reward_model": {"presets and agents set it": RARE, "has no reference": "beta"},
    "train_agent": {
        "presets and agents set it": RARE,
        "is in the file": "environment eval_interval eval_tasks top_p",
        "is always the same": "rollouts loss_type",
    },
}


@pytest.mark.parametrize("method", METHODS)
def test_every_hyper_parameter_has_an_option_or_is_left_out_on_purpose(method: str):
    command = f"train_{method}"
    parser = load_command_class("rl", command).create_parser("manage.py", command)
    options = frozenset(action.dest for action in parser._actions)
    check({field.name for field in fields(config_class(method))}, command, options, WITHOUT_OPTION)
