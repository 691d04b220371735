"""``--sweep``, of methods whose rows say what is better, so that a trial can be measured."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.management.base import CommandParser


@dataclass(frozen=True, kw_only=True)
class SweepGroup:
    sweep: bool


def add_sweep_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--sweep", action="store_true", help="try half, once and double the learning rate first, on part of the rows"
    )
