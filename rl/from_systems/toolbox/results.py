"""What the steps of a pipeline made, as a dictionary that also tells of a failure, and as a file."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rl.base.files import write_json


class Results(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        """Raises KeyError that says why there is none."""
        reason = f", for the pipeline failed: {self['error']}" if "error" in self else ""
        raise KeyError(f"there is no {name}{reason}")


class Steps:
    """Used in ``with``: an error within ends the steps and becomes ``success: False`` with ``error`` and ``traceback``. A
    KeyboardInterrupt and its like go on."""

    def __init__(self, file: Path, **about: Any) -> None:
        self.file, self.values = file, Results(start_time=_now(), **about)

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        is_failure = isinstance(error, Exception)
        if is_failure:
            lines = traceback.format_exception(kind, error, trace)
            self.values |= {"success": False, "error": str(error), "traceback": "".join(lines)}
        elif error is None:
            self.values |= {"success": True, "end_time": _now()}
        write_json(self.file, self.values)
        return is_failure


def _now() -> str:
    return datetime.now(UTC).isoformat()
