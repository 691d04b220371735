"""``--output``: a command's document as a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.files import write_text


def require_writable(output: str | None) -> None:
    """What the document is about may take hours: what is wrong with the path is said before. Raises UsageError."""
    if output is None:
        return
    path = Path(output).expanduser()
    if path.is_dir():
        raise UsageError(f"--output {output} is a directory; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {output} cannot be written: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {output} cannot be written: {path.parent} is not writable")


def write_document(output: str | None, document: Mapping[str, Any]) -> None:
    """Raises UsageError."""
    if output is None:
        return
    try:
        write_text(Path(output).expanduser(), json.dumps(document, indent=2, default=str, ensure_ascii=False))
    except OSError as error:
        raise UsageError(f"--output {output} cannot be written: {error.strerror}") from error
