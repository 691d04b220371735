"""The tables of docs/security.md, from what the tests saw. ``UPDATE_DOCS=1`` writes them."""

import os
import re

from django.conf import settings

PAGE = settings.BASE_DIR / "docs" / "security.md"


def table(*rows: tuple[str, ...]) -> str:
    header, *others = rows
    lines = [header, ("---",) * len(header), *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def check(name: str, generated: str) -> None:
    """Compares what stands between the page's two markers with what it should be."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"(<!-- {name}: .*? -->\n\n)(.*?)(\n\n<!-- end of {name} -->)", page, re.DOTALL)
    assert found, f"docs/security.md has no place for {name}"
    if os.environ.get("UPDATE_DOCS"):
        page = page[: found.start(2)] + generated + page[found.end(2) :]
        PAGE.write_text(page, encoding="utf-8")
    else:
        assert found[2] == generated, "docs/security.md is out of date: run this test with UPDATE_DOCS=1"
