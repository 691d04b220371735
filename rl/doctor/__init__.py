"""What may be wrong with an installation: one function a question. Each yields what it sees, and changes nothing.

Imports: base, lm, models, operations, serving; Django."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Symptom:
    """``fix``: what to do, in words or as a command; empty where all is well."""

    severity: Severity
    text: str
    fix: str = ""


def fine(text: str) -> Symptom:
    return Symptom(Severity.FINE, text)


def warning(text: str, fix: str) -> Symptom:
    return Symptom(Severity.WARNING, text, fix)


def problem(text: str, fix: str) -> Symptom:
    return Symptom(Severity.PROBLEM, text, fix)
