"""What Command Center's files hold; ``rl.collect.command_center`` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Rating:
    entry_id: str
    up: bool
    tags: tuple[str, ...] = ()
    notes: str = ""
    rated_at: datetime | None = None
    """In UTC; a time without a zone is taken as UTC."""
    device: str | None = None
    """Who rated, which may be empty; None where the file does not say it of each rating."""


@dataclass(frozen=True, slots=True)
class Entry:
    entry_id: str
    question_id: str
    question: str
    scenario: str
    fixture: str
    size: str
    """One of SIZES."""
    category: str = ""
    natural: bool = False
    """The running system chose this scenario itself."""
    forced: bool = False
    """The simulation added it."""
    pipeline_selected_fixture: str | None = None
    widget_index: int = -1
    data_override: dict[str, Any] = field(default_factory=dict)
    layout_context: dict[str, Any] = field(default_factory=dict)
    pipeline_meta: dict[str, Any] = field(default_factory=dict)
    rating: Rating | None = None
    fields: tuple[str, ...] = field(default=(), compare=False)
    """Names of all that the file says of it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a file of entries says about itself; entry ids are unique within a run only."""

    run_id: str = ""
    created_at: str = ""
    question_bank: str = ""
