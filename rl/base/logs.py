"""What a line of the log is about: the request, the run and the trace that is worked on; and lines as JSON."""

import json
import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

request_id: ContextVar[str] = ContextVar("request_id", default="")
run_id: ContextVar[str] = ContextVar("run_id", default="")
trace_id: ContextVar[str] = ContextVar("trace_id", default="")
_SUBJECTS: Final = (request_id, run_id, trace_id)
_TAKEN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@contextmanager
def about(name: ContextVar[str], value: object) -> Iterator[None]:
    """Until the end of the block, lines are about this request, run or trace."""
    token = name.set(str(value))
    try:
        yield
    finally:
        name.reset(token)


def request_number(given: str) -> str:
    """The one that a proxy or a client gave, if it is a short word; else a new one."""
    return given if _TAKEN.fullmatch(given) else uuid.uuid4().hex


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII. What a line is not about is left out."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{subject.name: subject.get() for subject in _SUBJECTS if subject.get()},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line)
