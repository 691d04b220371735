"""Command Center's rating calls: by entry id and device, latest wins. Unknown fields are let pass: its browser code is not
ours to change."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback.events import rating
from rl.collect.feedback.write import CHUNK, Rated, record
from rl.collect.limits import MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import DEVICE, RATE, visible_to
from rl.web.api.base import ApiView, success
from rl.web.api.lookups import by_external_id, runs_with
from rl.web.api.problems import BAD_BODY, BAD_CHANGE, BadRequest, TooLarge, operation, summary
from rl.web.api.serializers.fields import NameField, ObjectField, ShortListField, TextField

THUMBS = {"up": 1.0, "down": 0.0}


def device_field() -> NameField:
    return NameField(max_length=MAX_RATER_LENGTH - len(DEVICE), trim_whitespace=True)


def agent_field() -> TextField:
    return TextField(
        max_length=64, required=False, allow_null=True, help_text="Needed where two agents have the same entry_id."
    )


class EntryRating(serializers.Serializer):
    """What a person thinks of one entry."""

    rating = serializers.ChoiceField(list(THUMBS))
    tags = ShortListField(child=TextField(max_length=MAX_TAG_LENGTH), longest=MAX_TAGS, required=False, allow_null=True)
    notes = TextField(max_length=MAX_NOTES_LENGTH, allow_blank=True, required=False, allow_null=True)
    rated_at = serializers.DateTimeField(required=False, allow_null=True, help_text="The latest rating wins.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {**attrs, "tags": attrs.get("tags") or [], "notes": attrs.get("notes") or ""}


class RatingUpsert(EntryRating):
    entry_id = TextField(max_length=200, help_text="The trace's external_id.")
    device_id = device_field()
    agent = agent_field()


class RatingEcho(serializers.Serializer):
    """The rating that counts now; another one than sent if that was older."""

    entry_id = serializers.CharField(source="trace.external_id")
    device_id = serializers.SerializerMethodField()
    rating = serializers.SerializerMethodField()
    tags = serializers.ListField(child=serializers.CharField())
    notes = serializers.CharField()
    rated_at = serializers.DateTimeField()

    def get_device_id(self, event: Feedback) -> str:
        return event.rater.removeprefix(DEVICE)

    def get_rating(self, event: Feedback) -> str:
        return "up" if (event.value or 0) > 0.5 else "down"


class RatingSync(serializers.Serializer):
    ratings = ObjectField(help_text="entry_id to {rating, tags, notes, rated_at}.")
    device_id = device_field()
    agent = agent_field()


class RejectedRating(serializers.Serializer):
    entry_id = serializers.CharField()
    reason = serializers.CharField()


class SyncResult(serializers.Serializer):
    created = serializers.IntegerField(help_text="First ratings of their entries by this device.")
    updated = serializers.IntegerField(help_text="Entries that it had rated before, changed or not.")
    total = serializers.IntegerField(help_text="created + updated.")
    rejected = RejectedRating(many=True)


SOURCE = "command_center"
MOST = 5000
"""Ratings of one call."""


class RatingList(ApiView):
    scopes = {"POST": RATE}
    serializer_class = RatingUpsert

    @operation("rate_entry", "Rate an entry", {200: RatingEcho, 201: RatingEcho}, *BAD_CHANGE, tags=["ratings"])
    def post(self, request: Request) -> Response:
        data = self.check_body(RatingUpsert)
        entry_id = data["entry_id"]
        trace = _only(_entries(self.key, [entry_id], data.get("agent")), entry_id)
        rated = record([_event(trace, data, DEVICE + data["device_id"], self.key)])[0]
        rated.event.trace = trace
        return Response(RatingEcho(rated.event).data, status=success(rated.created))


class RatingBulkSync(ApiView):
    scopes = {"POST": RATE}
    serializer_class = RatingSync

    @operation(
        "sync_ratings",
        "Rate many entries",
        {200: SyncResult},
        *BAD_BODY,
        409,
        tags=["ratings"],
        description=f"At most {MOST}. What cannot be stored is named under `rejected`; the rest is stored.",
    )
    def post(self, request: Request) -> Response:
        data = self.check_body(RatingSync)
        if len(data["ratings"]) > MOST:
            raise TooLarge(f"at most {MOST} ratings at a time, not {len(data['ratings'])}; send them in parts")
        rated: list[Rated] = []
        rejected: list[dict[str, str]] = []
        items = list(data["ratings"].items())
        for part in (items[start : start + CHUNK] for start in range(0, len(items), CHUNK)):
            traces = _entries(self.key, [entry_id for entry_id, _ in part], data.get("agent"))
            rater = DEVICE + data["device_id"]
            key = self.key
            checker, accepted = EntryRating(), []
            for entry_id, document in part:
                try:
                    accepted.append(_event(_only(traces, entry_id), checker.run_validation(document), rater, key))
                except ValidationError as error:
                    rejected.append({"entry_id": entry_id, "reason": summary(error)})
                except (APIException, UsageError) as error:
                    rejected.append({"entry_id": entry_id, "reason": str(error)})
            rated += record(accepted)
        created = sum(result.created for result in rated)
        return Response(
            {"created": created, "updated": len(rated) - created, "total": len(rated), "rejected": rejected}
        )


def _entries(key: ApiKey, entry_ids: list[str], agent: str | None) -> dict[str, list[Trace]]:
    """Traces by entry id, of all agents or the named one, without their big columns."""
    rows = visible_to(key, Trace.objects.select_related("agent").only("external_id", "agent__name").order_by())
    traces: dict[str, list[Trace]] = {}
    for trace in by_external_id(rows, entry_ids, agent):
        traces.setdefault(trace.external_id or "", []).append(trace)
    missing = pending.deliver_named(entry_id for entry_id in entry_ids if entry_id not in traces)
    for trace in by_external_id(rows, missing, agent) if missing else ():
        traces.setdefault(trace.external_id or "", []).append(trace)
    for name, run in runs_with(rows, [name for name in entry_ids if name not in traces], agent):
        traces.setdefault(name, []).append(run)
    return traces


def _only(traces: dict[str, list[Trace]], entry_id: str) -> Trace:
    matches = traces.get(entry_id, [])
    if not matches:
        raise NotFound(f"there is no entry {entry_id[:200]!r}, or this key is not for its agent")
    if len(matches) > 1:
        names = ", ".join(sorted(trace.agent.name for trace in matches))
        raise BadRequest(f"several agents have an entry {entry_id!r} ({names}): name one of them as 'agent'")
    return matches[0]


def _event(trace: Trace, data: dict[str, Any], rater: str, key: ApiKey) -> Feedback:
    return rating(
        trace,
        rater=rater,
        scale=Feedback.Scale.THUMB,
        value=THUMBS[data["rating"]],
        tags=data["tags"],
        notes=data["notes"],
        rated_at=data.get("rated_at"),
        source=SOURCE,
        api_key=key,
    )
