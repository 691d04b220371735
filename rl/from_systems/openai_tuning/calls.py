"""What all calls share: keys, errors and lists as OpenAI's clients know them."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from rl.base.names import unknown_name
from rl.collect.storable import unstorable
from rl.faults import fault_of
from rl.serving.gateway.refusals import Refusal
from rl.web.api.base import ApiView
from rl.web.api.problems import summary

Row = TypeVar("Row", bound=Model)


class TuningRefused(APIException):
    """Names the field to blame, and a code that programs read."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status_code = param, code, status


def not_found(kind: str, name: str) -> TuningRefused:
    """``kind``: as OpenAI calls it, such as ``fine-tuning job``."""
    return TuningRefused(f"No such {kind}: {name[:100]}", "id", status=HTTPStatus.NOT_FOUND)


@extend_schema(exclude=True)
class TuningView(ApiView):
    metadata_class = None

    def handle_exception(self, exc: Exception) -> Response:
        answer = super().handle_exception(exc)
        refused, fault = exc if isinstance(exc, TuningRefused) else None, fault_of(exc)
        message = summary(exc) if isinstance(exc, ValidationError) else str(answer.data["detail"])
        code = refused.code if refused else fault.code if fault else None
        refusal = Refusal(answer.status_code, message, code=code, param=refused.param if refused else None)
        kept = {name: answer[name] for name in ("WWW-Authenticate", "Retry-After") if answer.has_header(name)}
        return Response({"error": refusal.error}, refusal.status, headers=kept, content_type="application/json")

    def mine(self, rows: QuerySet[Row], kind: str, name: str) -> Row:
        """The row of this id that the key may see. Raises TuningRefused (404)."""
        row = None if unstorable(name) else self.filter_queryset(rows).filter(pk=name).first()
        if row is None:
            raise not_found(kind, name)
        return row

    def fields(self, *known: str) -> dict[str, Any]:
        """The request's JSON object. Raises TuningRefused for others than the known fields."""
        body = self.request.data
        if not isinstance(body, dict):
            raise TuningRefused("the body must be a JSON object")
        for name in body:
            if name not in known:
                raise TuningRefused(unknown_name("parameter", str(name), sorted(known)), str(name), "unknown_parameter")
        return body

    def number(self, name: str, default: int, most: int) -> int:
        """A query parameter, 1 to ``most``. Raises TuningRefused."""
        text = self.request.GET.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
            raise TuningRefused(f"{name} must be a whole number from 1 to {most}", name)
        return int(text)

    def page(self, rows: Sequence[dict[str, Any]], default: int = 20, most: int = 100) -> Response:
        """Those behind the query's ``after``. Raises TuningRefused for one that is not among them."""
        start, limit = 0, self.number("limit", default, most)
        if after := self.request.GET.get("after"):
            behind = [number for number, row in enumerate(rows, 1) if row["id"] == after]
            if not behind:
                raise TuningRefused(f"there is nothing with the id {after[:100]!r} here", "after")
            start = behind[0]
        return _page(rows[start : start + limit], has_more=len(rows) > start + limit)

    def page_of(self, rows: QuerySet[Row], show: Callable[[Row], dict[str, Any]], **limits: int) -> Response:
        """The same of rows that are read page by page, in the order of the query's ``order`` by the time they were made."""
        order = self.request.GET.get("order", "desc")
        if order not in ("asc", "desc"):
            raise TuningRefused("order must be asc or desc", "order")
        limit = self.number("limit", limits.get("default", 20), limits.get("most", 100))
        rows = self.filter_queryset(rows).order_by(
            *(("created_at", "pk") if order == "asc" else ("-created_at", "-pk"))
        )
        if after := self.request.GET.get("after"):
            known = rows.none() if unstorable(after) else rows.filter(pk=after)
            last = known.values_list("created_at", flat=True).first()
            if last is None:
                raise TuningRefused(f"there is nothing with the id {after[:100]!r} here", "after")
            way = "gt" if order == "asc" else "lt"
            same = rows.filter(created_at=last, **{f"pk__{way}": after})
            rows = rows.filter(**{f"created_at__{way}": last}) | same
        listed = list(rows[: limit + 1])
        return _page([show(row) for row in listed[:limit]], has_more=len(listed) > limit)


def _page(shown: Sequence[dict[str, Any]], *, has_more: bool) -> Response:
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    document = {"object": "list", "data": [*shown], "first_id": first, "last_id": last, "has_more": has_more}
    return Response(document)


@extend_schema(exclude=True)
class UnknownCall(TuningView):
    """Every other address below theirs."""

    authentication_classes = ()
    permission_classes = ()
    parser_classes: tuple[type[BaseParser], ...] = ()

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        raise TuningRefused(f"there is nothing at {request.method} {request.path[:200]}", code="not_found", status=404)
