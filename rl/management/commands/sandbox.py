"""Try the sandbox; run a program in it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.table import Table

from rl import sandbox
from rl.base.errors import SandboxUnavailable
from rl.base.outside_files import read_text
from rl.management.base import RatchetCommand, add_json_option
from rl.management.options import Action, read_options
from rl.sandbox.attacks import ATTACKS, AttackResult
from rl.sandbox.attacks.checking import try_all


@dataclass(frozen=True, slots=True)
class CheckOptions:
    backend: str | None


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    file: Path
    language: str | None
    stdin: Path | None
    backend: str | None


class Command(RatchetCommand):
    help = "Try the sandbox on this machine, or run a program in it."

    def add_options(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        check = actions.add_parser("check", help="try every attack with every backend that works here")
        check.add_argument("--backend", choices=list(sandbox.BACKENDS), help="only this one")
        run = actions.add_parser("run", help="run a program and end as it did")
        run.add_argument("file", type=Path, help="the program")
        run.add_argument("--language", choices=list(sandbox.LANGUAGES), help="shell for a file .sh, else python")
        run.add_argument("--stdin", type=Path, help="a file that the program reads; nothing if left out")
        run.add_argument("--backend", choices=list(sandbox.BACKENDS), help="only this one")
        add_json_option(check, run)

    def run(self, **arguments: Any) -> None:
        match read_options(Action, arguments).action:
            case "check":
                self._check(read_options(CheckOptions, arguments).backend)
            case "run":
                self._run(read_options(ProgramOptions, arguments))

    def _check(self, backend: str | None) -> None:
        complaints = sandbox.available()
        backends = {backend: complaints[backend]} if backend else complaints
        usable = [name for name, complaint in backends.items() if not complaint]
        unusable = [f"{name} cannot be used here: {complaint}" for name, complaint in backends.items() if complaint]
        if not usable:
            raise SandboxUnavailable("untrusted code cannot be run on this machine. " + "; ".join(unusable))
        attempts = [attempt for name in usable for attempt in self._attack(name)]
        lost = sum(not attempt.held for attempt in attempts)
        summary = f"{len(attempts) - lost} of {len(attempts)} attacks held, with {', '.join(usable)}."
        document = {"backends": backends, "lost": lost, "attacks": [attempt.as_dict() for attempt in attempts]}
        self.result(document, _table(attempts), lines=(*unusable, summary))
        if lost:
            raise CommandError(f"{lost} attacks were won: do not run untrusted code on this machine", returncode=1)

    def _attack(self, backend: str) -> list[AttackResult]:
        self.report("stage", {"name": f"{len(ATTACKS)} attacks with {backend}"})
        return list(try_all(backend))

    def _run(self, options: ProgramOptions) -> None:
        stdin = read_text(options.stdin) if options.stdin else ""
        language = options.language or ("shell" if options.file.suffix == ".sh" else "python")
        result = sandbox.run(read_text(options.file), language, stdin, backend=options.backend)
        if self.as_json:
            self.result(asdict(result))
            return
        self.stdout.write(result.stdout, ending="")
        self.stderr.write(result.stderr, ending="")
        if result.stopped:
            self.stderr.write(f"ended: it reached the {result.stopped} limit")
        if result.exit:
            sys.exit(result.exit if result.exit > 0 else 128 - result.exit)


def _table(attempts: list[AttackResult]) -> Table:
    table = Table("attack", "backend", "result", "what was seen")
    for attempt in attempts:
        table.add_row(attempt.attack.name, attempt.backend, "held" if attempt.held else "LOST", attempt.evidence)
    return table
