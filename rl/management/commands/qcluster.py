"""The queue."""

from __future__ import annotations

import sys
from typing import Any

from django_q.management.commands import qcluster

from rl import cluster
from rl.operations.leftovers import clear_leftovers


class Command(qcluster.Command):
    help = "Works off the queue until it is stopped."

    def handle(self, *args: Any, **options: Any) -> None:
        clear_leftovers()
        cluster.bind()
        super().handle(*args, **options)
        if code := cluster.wait():
            sys.exit(code)
