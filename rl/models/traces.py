"""Trace, RunPart, prompt_key; QuestionStart, UserTurns: what lists show of prompts, taken out by the database, so that
megabytes need not come over."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Func, IntegerField, Q, TextField
from django.utils import timezone

from rl.base.answer_ids import stored_name
from rl.base.messages import last_question
from rl.base.records import Message
from rl.models.agents import Agent

if TYPE_CHECKING:
    from rl.models.versions import ModelVersion


def prompt_key(prompt: Sequence[Message]) -> str:
    """Same messages, same key: 64 hexadecimal digits of SHA-256 over the canonical JSON of roles and contents."""
    canonical = _as_canonical_json([[m["role"], m["content"]] for m in prompt])
    return hashlib.sha256(canonical.encode()).hexdigest()


_as_canonical_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

SPLIT, NEVER, HELD_OUT = "split", "never", "heldout"
"""``details["split"]`` of a trace: ``never`` is in no row; the prompt of one with ``heldout`` is held out for testing."""


def may_be_used(trace: str = "") -> Q:
    """Traces that may be in rows. ``trace``: the way to the trace, such as ``trace__``, where there is one."""
    column = f"{trace}details__{SPLIT}"
    return Q(**{f"{column}__isnull": True}) | ~Q(**{column: NEVER})  # NOT alone is NULL where nothing is said


_FAILURES = ("error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource")
_LIMITS = ("length", "max_tokens", "max_output_tokens", "model_length", "incomplete")
_FILTERS = ("content_filter", "content_filtered", "safety", "sensitive", "recitation", "prohibited_content", "refusal")
_NOBODY_KNOWS = ("other", "unknown")
"""Google's and Vercel's words for what they have none for, such as a failure of the server or a stream that ended."""
_CUTS = (*_FAILURES, *_LIMITS, *_FILTERS, *_NOBODY_KNOWS)
_SPELLINGS = [*_CUTS, *map(str.upper, _CUTS), *(cut.replace("_", "-") for cut in _CUTS)]


def server_failed(finish_reason: object) -> bool:
    """Whether a server says by it that it could not go on."""
    return isinstance(finish_reason, str) and finish_reason.lower() in _FAILURES


def is_broken_off(details: Mapping[str, Any]) -> bool:
    """Whether an answer with these details did not end by itself: to imitate it would teach to stop there."""
    return details.get("finish_reason") in _SPELLINGS or details.get("complete") is False or bool(details.get("error"))


def ended_by_itself(trace: str = "") -> Q:
    """Traces that are not broken off. ``trace`` as ``may_be_used`` has it."""
    details = f"{trace}details__"
    cut = Q(**{f"{details}finish_reason__in": _SPELLINGS})
    whole = Q(**{f"{details}complete__isnull": True}) | ~Q(**{f"{details}complete": False})
    return (Q(**{f"{details}finish_reason__isnull": True}) | ~cut) & whole & ~Q(**{f"{trace}details__has_key": "error"})


GATEWAY = "gateway"
"""The source of answers that the gateway fetched."""
DUEL = "duel"
"""The source of answers that the gate asked for, so that people compare them."""


def answered_by(version: ModelVersion | None, trace: str = "") -> Q:
    """Traces with answers of the version; None: of the base model. An answer without a version may be anybody's: only the
    gateway and the gate know that it is the base model's. ``trace``: the way to the trace, such as ``trace__``."""
    if version is not None:
        return Q(**{f"{trace}model_version": version})
    unknown = Q(**{f"{trace}details__has_key": "model_version"})
    return Q(**{f"{trace}model_version": None, f"{trace}source__in": (GATEWAY, DUEL)}) & ~unknown


class Trace(models.Model):
    """One answer of an agent, and what really happened while it was made.

    ``prompt_key`` groups answers to the same prompt: the hash of the messages, or the key that an importer knows better
    (Command Center's question_id)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="traces")
    model_version = models.ForeignKey(
        "rl.ModelVersion",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="traces",
        help_text="The version that gave the answer; empty: the base model, or not known.",
    )
    external_id = models.CharField(
        max_length=200, null=True, blank=True, help_text="The id in the system it came from."
    )
    source = models.CharField(max_length=32, default="api")
    session_id = models.CharField(max_length=200, blank=True)
    arm = models.ForeignKey(
        "rl.Arm",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="traces",
        help_text="The side of an experiment that gave the answer.",
    )
    unit = models.CharField(
        max_length=200, blank=True, help_text="The user or conversation that the experiment keeps on one side."
    )
    otel_trace_id = models.CharField(
        max_length=32, null=True, blank=True, help_text="The OpenTelemetry trace it was seen in; hexadecimal."
    )

    prompt = models.JSONField(help_text="Chat messages: a list of {role, content}.")
    prompt_key = models.CharField(max_length=200)
    response = models.TextField(blank=True)
    details = models.JSONField(default=dict, blank=True, help_text="What the source knows beside prompt and response.")

    tool_calls = models.JSONField(default=list, blank=True)
    reasoning_steps = models.JSONField(default=list, blank=True)
    tasks = models.JSONField(default=list, blank=True)
    state = models.JSONField(null=True, blank=True)
    action = models.JSONField(null=True, blank=True)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    llm_calls = models.PositiveIntegerField(null=True, blank=True)
    cost = models.FloatField(null=True, blank=True, help_text="In the currency of the source.")
    duration_ms = models.PositiveIntegerField(null=True, blank=True)

    # What the rewards say; see rl/scoring/stored.py.
    reward = models.FloatField(null=True, blank=True, help_text="Weighted mean of the rewards that apply, 0 … 1.")
    rewards = models.JSONField(
        default=dict,
        blank=True,
        help_text="Reward name to {value, weight, reason, details}; value null: does not apply.",
    )
    rewarded_at = models.DateTimeField(null=True, blank=True)
    reward_pending = models.BooleanField(
        default=True, help_text="Something was said about it that its reward does not know yet."
    )

    occurred_at = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # Importing or posting the same thing twice finds the first one.
            models.UniqueConstraint(fields=["agent", "external_id"], name="trace_external_id_unique"),
        ]
        indexes = [
            # Pair building walks an agent's rated answers prompt by prompt, the plan counts rewarded ones by prompt.
            models.Index(fields=["agent", "prompt_key", "reward"], name="trace_prompt"),
            # Which traces wait for their reward, the oldest first, and how many? SQLite counts in the index alone only
            # if the condition's column is in it.
            models.Index(
                fields=["agent", "created_at", "id", "reward_pending"],
                condition=Q(reward_pending=True),
                name="trace_reward_pending",
            ),
            # The other answers of a conversation.
            models.Index(
                fields=["agent", "session_id", "occurred_at"], condition=~Q(session_id=""), name="trace_session"
            ),
            # The answers of an experiment's arm, by user.
            models.Index(fields=["arm", "unit"], condition=Q(arm__isnull=False), name="trace_arm"),
            # Which model call does a tool span belong to? NULL, not "": a plain comparison then uses the index.
            models.Index(
                fields=["agent", "otel_trace_id"], condition=Q(otel_trace_id__isnull=False), name="trace_otel"
            ),
            # The list pages and the cursor of the API, newest first.
            models.Index(fields=["-created_at", "id"], name="trace_newest"),
            models.Index(fields=["agent", "-created_at", "id"], name="trace_agent_newest"),
        ]
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return f"{self.agent_id}/{self.external_id or self.id}"

    def save(self, *args: object, **kwargs: object) -> None:
        self.prompt_key = self.prompt_key or prompt_key(self.prompt)
        super().save(*args, **kwargs)  # type: ignore[arg-type]

    @classmethod
    def by_external_id(cls, external_id: str) -> models.QuerySet[Trace]:
        """Finds those of all agents, also by the id that the gateway gave. Their index begins with the agent, so the agents
        are named."""
        agents = list(Agent.objects.order_by().values_list("pk", flat=True))
        return cls.objects.filter(agent__in=agents, external_id=stored_name(external_id)).order_by()

    @property
    def question(self) -> str:
        """The last user message, for people's eyes."""
        return last_question(self.prompt)


class RunPart(models.Model):
    """An answer that a later one went on from, with the results of its tool calls: the trace of the later one has both, and
    the id of the earlier one names it from then on; one that OpenTelemetry told, by its hash."""

    id = models.UUIDField(primary_key=True, editable=False, help_text="The id that the client got with the answer.")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="run_parts", help_text="The run.")

    def __str__(self) -> str:
        return f"{self.id} in {self.trace_id}"


LENGTH = 200
"""Characters of a question that a list has."""


class _OfUser(Func):
    """``select`` and ``then`` are SQL around the user's messages, rows of ``number`` and ``content``."""

    select, then = "", ""

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        role, text = (
            f"CASE type WHEN 'object' THEN json_extract(value, '$.{name}') END" for name in ("role", "content")
        )
        rows = f"SELECT key AS number, {text} AS content FROM json_each(%(expressions)s) WHERE {role} = 'user'"  # noqa: S608  constants
        return self._select(rows, compiler, connection)

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        users = """jsonb_path_query(%(expressions)s, '$[*] ? (@.role == "user")')"""
        rows = f"SELECT number, m ->> 'content' AS content FROM {users} WITH ORDINALITY AS of_user(m, number)"  # noqa: S608
        return self._select(rows, compiler, connection)

    def _select(self, rows: str, compiler: Any, connection: Any) -> tuple[str, Any]:
        template = f"(SELECT {self.select} FROM ({rows}) AS messages {self.then})"  # noqa: S608
        return self.as_sql(compiler, connection, template=template)


class QuestionStart(_OfUser):
    """As ``Trace.question``, cut to LENGTH characters; NULL where there is none."""

    select, then = f"substr(content, 1, {LENGTH})", "ORDER BY number DESC LIMIT 1"
    output_field = TextField()


class UserTurns(_OfUser):
    """How many messages there are of the user."""

    select = "count(*)"
    output_field = IntegerField()
