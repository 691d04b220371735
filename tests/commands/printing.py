"""What commands of this process print, and how they refuse."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def printed(*words: object, **options: Any) -> str:
    out = StringIO()
    call_command(*map(str, words), stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def refused(command: Callable[..., object], match: str, *words: object, code: int = 2) -> None:
    """``match``: a pattern of its one line."""
    with pytest.raises(CommandError, match=match) as error:
        command(*words)
    assert error.value.returncode == code
