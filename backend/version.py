"""Which Ratchet this is: the first heading of the changelog says it, and all else reads it here. Standard library alone."""

import re
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def read_version() -> str:
    """Raises ValueError for a changelog that does not begin with a version."""
    heading = re.match(r"# Changelog\n\n## (\d\S*)", CHANGELOG.read_text(encoding="utf-8"))
    if heading is None:
        raise ValueError(f"{CHANGELOG} does not begin with '# Changelog' and a heading such as '## 0.1.0'")
    return heading[1]
