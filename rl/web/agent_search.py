"""A page that lists agents is asked in its address for a part of their names, and for one of its pages."""

from dataclasses import dataclass
from typing import Any, Self

from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class AgentSearch:
    find: str = ""
    page: int = 1

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """Anything but a number is the first page."""
        find, page = request.GET.get("find", "").strip().replace("\0", "")[:100], request.GET.get("page", "")
        return cls(find, max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 6 else 1)

    def describe(self, *, has_more: bool, is_long: bool) -> dict[str, Any]:
        """For the templates ``agent_search`` and ``agent_pages``. ``is_long``: the first page is worth a search."""
        pages = {"before": self.page - 1, "after": self.page + 1 if has_more else 0}
        return {"find": self.find, "pages": pages, "is_long": is_long or bool(self.find) or self.page > 1}
