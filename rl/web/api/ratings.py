"""Command Center's rating calls: by entry id and device, latest wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback.events import rating
from rl.collect.feedback.write import CHUNK, Rated, record
from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import DEVICE, RATE, visible_to
from rl.web.api.base import ApiView, success
from rl.web.api.lookups import by_external_id, runs_with
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.problems import BadRequest, TooLarge, summary
from rl.web.api.serializers.ratings import THUMBS, EntryRating, RatingEcho, RatingSync, RatingUpsert, SyncResult

SOURCE = "command_center"
MOST = 5000
"""Ratings of one call."""
Item = tuple[str, Any]


class RatingList(ApiView):
    scopes = {"POST": RATE}
    queryset = Feedback.objects.all()
    serializer_class = RatingUpsert

    @operation("rate_entry", "Rate an entry", {200: RatingEcho, 201: RatingEcho}, *BAD_BODY, 404, 409, tags=["ratings"])
    def post(self, request: Request) -> Response:
        data = self.check_body(RatingUpsert)
        entry_id = data["entry_id"]
        trace = _only(_entries(self.key, [entry_id], data.get("agent")), entry_id)
        rated = record([_event(trace, data, DEVICE + data["device_id"], self.key)])[0]
        rated.event.trace = trace
        return Response(RatingEcho(rated.event).data, status=success(rated.created))


class RatingBulkSync(ApiView):
    scopes = {"POST": RATE}
    queryset = Feedback.objects.all()
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
        for part in _parts(data["ratings"].items()):
            traces = _entries(self.key, [entry_id for entry_id, _ in part], data.get("agent"))
            rated += record(_accept(part, traces, DEVICE + data["device_id"], self.key, rejected))
        created = sum(result.created for result in rated)
        return Response(
            {"created": created, "updated": len(rated) - created, "total": len(rated), "rejected": rejected}
        )


def _parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    every = list(items)
    return (every[start : start + CHUNK] for start in range(0, len(every), CHUNK))


def _accept(
    part: list[Item], traces: dict[str, list[Trace]], rater: str, key: ApiKey, rejected: list[dict[str, str]]
) -> list[Feedback]:
    """The ratings that can be stored; appends the others to ``rejected``."""
    checker, accepted = EntryRating(), []
    for entry_id, document in part:
        try:
            accepted.append(_event(_only(traces, entry_id), checker.run_validation(document), rater, key))
        except ValidationError as error:
            rejected.append({"entry_id": entry_id, "reason": summary(error)})
        except APIException as error:
            rejected.append({"entry_id": entry_id, "reason": str(error.detail)})
        except UsageError as error:
            rejected.append({"entry_id": entry_id, "reason": str(error)})
    return accepted


def _entries(key: ApiKey, entry_ids: list[str], agent: str | None) -> dict[str, list[Trace]]:
    """Traces by entry id, of all agents or the named one, without their big columns."""
    rows = visible_to(key, Trace.objects.select_related("agent").only("external_id", "agent__name").order_by())
    traces: dict[str, list[Trace]] = {}
    for trace in by_external_id(rows, entry_ids, agent):
        traces.setdefault(trace.external_id or "", []).append(trace)
    missing = pending.deliver_named(entry_id for entry_id in entry_ids if entry_id not in traces)
    for trace in by_external_id(rows, missing, agent) if missing else ():
        traces.setdefault(trace.external_id or "", []).append(trace)
    for name, run in runs_with(rows, [name for name in missing if name not in traces], agent):
        traces[name] = [run]
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
