"""What is wrong, and its fix."""

from dataclasses import asdict

from django.core.management.base import CommandError
from rich.table import Table
from rich.text import Text

from rl.doctor import Severity
from rl.doctor.doctor import Examined, examine, is_healthy
from rl.management.base import RatchetCommand
from rl.management.options import NoOptions

COLOURS = {Severity.FINE: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}


class Command(RatchetCommand):
    help = "Looks at this installation and says what is wrong and what to do. Exit code 1 where something is."

    requires_system_checks = ()  # they are among what it looks at

    def run(self, options: NoOptions) -> None:  # noqa: ARG002  as others of its kind
        examined = examine()
        severities = [check.symptom.severity for check in examined]
        healthy = is_healthy(examined)
        document = {
            "healthy": healthy,
            "checks": [{"check": check.check, **asdict(check.symptom)} for check in examined],
        }
        line = f"problems: {severities.count(Severity.PROBLEM)}, warnings: {severities.count(Severity.WARNING)}"
        self.result(document, _table(examined), lines=(line,))
        if not healthy:
            raise CommandError("this installation has problems; each stands above with what to do", returncode=1)


def _table(examined: list[Examined]) -> Table:
    table = Table("check", "", "what is seen, and what to do")
    for check in examined:
        symptom = check.symptom
        text = Text(symptom.text)
        if symptom.fix:
            text.append(f"\n→ {symptom.fix}", style="bold")
        table.add_row(check.check, Text(symptom.severity, style=COLOURS[symptom.severity]), text)
    return table
