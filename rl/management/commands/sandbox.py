"""Try the sandbox; run a program in it."""

import sys
from dataclasses import asdict
from pathlib import Path

from django.core.management.base import CommandError
from rich.table import Table

from rl import sandbox
from rl.base.errors import SandboxUnavailable
from rl.base.outside_files import read_text
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option
from rl.sandbox.attacks import ATTACKS, AttackResult
from rl.sandbox.attacks.checking import try_all


class CheckOptions(CommandOptions):
    backend: str | None = option(choices=list(sandbox.BACKENDS), help="only this one")


class ProgramOptions(CommandOptions):
    file: Path = argument(type=Path, help="the program")
    language: str | None = option(choices=list(sandbox.LANGUAGES), help="shell for a file .sh, else python")
    stdin: Path | None = option(help="a file that the program reads; nothing if left out")
    backend: str | None = option(choices=list(sandbox.BACKENDS), help="only this one")


class Command(ActionsCommand):
    help = "Try the sandbox on this machine, or run a program in it."
    actions = {"check": "try every attack with every backend that works here", "run": "run a program and end as it did"}

    def _check(self, options: CheckOptions) -> None:
        complaints = sandbox.available()
        backends = {options.backend: complaints[options.backend]} if options.backend else complaints
        usable = [name for name, complaint in backends.items() if not complaint]
        unusable = [f"{name} cannot be used here: {complaint}" for name, complaint in backends.items() if complaint]
        if not usable:
            raise SandboxUnavailable("untrusted code cannot be run on this machine. " + "; ".join(unusable))
        attempts: list[AttackResult] = []
        for name in usable:
            self.report("stage", {"name": f"{len(ATTACKS)} attacks with {name}"})
            attempts += try_all(name)
        lost = sum(not attempt.held for attempt in attempts)
        summary = f"{len(attempts) - lost} of {len(attempts)} attacks held, with {', '.join(usable)}."
        document = {"backends": backends, "lost": lost, "attacks": [attempt.as_dict() for attempt in attempts]}
        self.result(document, _table(attempts), lines=(*unusable, summary))
        if lost:
            raise CommandError(f"{lost} attacks were won: do not run untrusted code on this machine", returncode=1)

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
