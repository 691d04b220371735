"""The whole loop, then the site."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.management.base import CommandParser

from rl import quickstart
from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.ports import port_number, require_free
from rl.management.tables import evaluation_document, evaluation_table, verdict_line

Result = TypeVar("Result")
STEPS = 6


def _introduce(admin: quickstart.Admin) -> str:
    """Said as soon as the account exists: whoever stops the rest half-way can log in all the same."""
    return f"{admin.username}, password {admin.password}" if admin.password else f"{admin.username} exists"


def _packages() -> str:
    seconds = os.environ.get("RATCHET_SETUP_SECONDS")
    return f"installed in {seconds} s" if seconds else "installed already"


def _login(admin: quickstart.Admin) -> str:
    lost = f"password lost? python3 manage.py changepassword {admin.username}"
    return f"log in as {admin.username} ({'with the password above' if admin.password else lost})"


@dataclass(frozen=True, slots=True)
class Options:
    no_serve: bool
    yes: bool
    port: int


class Command(RatchetCommand):
    help = "From nothing to a trained, measured and exported model, and a running site: the whole loop on demo data."
    requires_system_checks: list[str] = []  # the database is not there yet

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--no-serve", action="store_true", help="do not start the site at the end")
        parser.add_argument("--yes", action="store_true", help="install packages without asking")
        parser.add_argument("--port", type=port_number, default=8000, help="of the site (8000)")

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        self.number = 0
        if not options.no_serve:
            require_free(options.port)
        self._step("packages", _packages)
        self._step("database", quickstart.prepare_database)
        admin = self._step("admin user", quickstart.prepare_admin, _introduce)
        agent, _ = self._step("demo data", quickstart.prepare_demo, lambda result: result[1])
        run = self._step(
            "training run: tiny base model, DPO, held-out evaluation, GGUF",
            lambda: quickstart.train(agent, self._say),
            str,
        )
        evaluation, gguf = self._step("gate", lambda: quickstart.outcome(run), lambda result: result[0].verdict)
        links = {} if options.no_serve else quickstart.links(agent, run, options.port)
        document = {
            "admin": {"username": admin.username, "password": admin.password},
            "run": run.pk,
            "evaluation": evaluation_document(evaluation),
            "gguf": str(gguf),
            "links": links,
        }
        start = ["start the site: python3 manage.py serve"] if options.no_serve else []
        lines = [verdict_line(evaluation), f"GGUF: {gguf}", *(f"{name}: {link}" for name, link in links.items())]
        next_step = "next: rate some answers, then run 'manage.py train_dpo --agent support-chat' again"
        self.result(document, evaluation_table(evaluation), lines=[*lines, *start, _login(admin), next_step])
        if not options.no_serve:
            with suppress(KeyboardInterrupt):  # the way to stop it
                quickstart.serve(options.port)

    def _step(self, name: str, work: Callable[[], Result], tell: Callable[[Result], str] = str) -> Result:
        """Runs one numbered step and says what came of it, and how long it took."""
        self.number += 1
        self._say(f"[{self.number}/{STEPS}] {name}")
        started = time.monotonic()
        result = work()
        self._say(f"      {tell(result)} ({time.monotonic() - started:.1f} s)")
        return result

    def _say(self, text: str) -> None:
        self.report.console.print(text, markup=False, highlight=False)
