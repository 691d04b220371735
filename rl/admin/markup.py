"""Small escaped pieces of HTML for the list and detail pages of the admin."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, cast
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe


class ReadOnly:
    """For a ModelAdmin or an inline: nobody adds, changes or deletes through it, whatever he may do elsewhere."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission


MOST_LISTED = 20_000


class LongList(Paginator):
    """Counts no further than MOST_LISTED, and ends there: to count millions takes longer than a page may. A search or a
    filter finds what is behind."""

    @cached_property
    def _counted(self) -> int:
        return cast("QuerySet[Any]", self.object_list).order_by().values("pk")[: MOST_LISTED + 1].count()

    @property
    def count(self) -> int:
        return min(self._counted, MOST_LISTED)

    @property
    def is_cut(self) -> bool:
        return self._counted > MOST_LISTED


class ReadOnlyAdmin(ReadOnly, admin.ModelAdmin):
    show_full_result_count = False
    list_per_page = 50
    paginator = LongList


class ReadOnlyInline(ReadOnly, admin.TabularInline):
    extra = 0
    template = "admin/rl/readonly_inline.html"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """All: Django asks for this even where nobody may change anything."""
        return self.fields or []


_LISTS = {
    "show": "list_display",
    "filter": "list_filter",
    "select": "list_select_related",
    "search": "search_fields",
    "fields": "fields",
}


def records(model: type[Model], base: type[admin.ModelAdmin] = ReadOnlyAdmin, /, **options: Any) -> None:
    """Registers a list and pages of what happened. ``show``, ``filter``, ``select``, ``search``, ``fields``: names with
    spaces between; ``fieldsets``: title to such names. Other ``options`` are the ModelAdmin's: columns, ``ordering``, …"""
    for name in _LISTS.keys() & options.keys():
        options[_LISTS[name]] = options.pop(name).split()
    if "fieldsets" in options:
        options["fieldsets"] = split_fieldsets(options["fieldsets"])
    admin.site.register(model, type(f"{model.__name__}Admin", (base,), options))


def split_fieldsets(titles: dict[str | None, str]) -> Any:
    """``titles``: to the names of their fields, with spaces between."""
    return [(title, {"fields": names.split()}) for title, names in titles.items()]


NOTHING = "–"
ROWS = 1000


def column(description: str, show: Callable[[Any], object], ordering: str | None = None) -> Callable[..., object]:
    """A column of a list, or a field of a page: what ``show`` makes of a row."""

    @admin.display(description=description, ordering=ordering)
    def tell(_: object, row: Any) -> object:
        return show(row)

    return tell


def change_link(model: type[Model], pk: object, text: object) -> SafeString | str:
    """A link to one record; takes a bare key, so that a list page need not load the record."""
    if pk is None:
        return NOTHING
    return format_html('<a href="{}">{}</a>', reverse(f"admin:rl_{model._meta.model_name}_change", args=[pk]), text)


def link_column(name: str, text: Callable[[Any], object]) -> Callable[..., object]:
    """A link to the record that the foreign key ``name`` holds; ``text``: what it says, of a row."""

    def link(row: Any) -> object:
        return change_link(row._meta.get_field(name).related_model, getattr(row, f"{name}_id"), text(row))

    return column(name.replace("_", " "), link)


def list_link(model: type[Model], text: str, **filters: int | str | UUID) -> SafeString:
    address = reverse(f"admin:rl_{model._meta.model_name}_changelist")
    query = urlencode({name: str(value) for name, value in filters.items()})
    return format_html('<a href="{}?{}">{}</a>', address, query, text)


def join_links(links: Iterable[SafeString | str]) -> SafeString:
    return format_html_join(mark_safe(" · "), "{}", ((link,) for link in links))


def badge(state: str, text: object) -> SafeString:
    return format_html('<span class="state state-{}">{}</span>', state, text)


def text_block(text: str) -> SafeString:
    return format_html('<div class="text-block">{}</div>', text)


def value_table(values: Mapping[str, Any]) -> SafeString | str:
    """Names and values, at most ROWS; what is nested is shown as JSON."""
    if not values:
        return NOTHING
    rows = [(name, plain(value)) for name, value in islice(values.items(), ROWS)]
    rows += [("…", f"{len(values) - ROWS:,} more")] if len(values) > ROWS else []
    return format_html(
        '<table class="values">{}</table>', format_html_join("", "<tr><th>{}</th><td>{}</td></tr>", rows)
    )


def plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def percent(share: float) -> str:
    return f"{share:.0%}"
