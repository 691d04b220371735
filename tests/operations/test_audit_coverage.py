"""Nothing that the audit log is to tell of happens without an event, as far as the code can be asked."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory

from rl.models import AuditEvent
from rl.operations.audit_signals import WATCHED

RL = Path(settings.BASE_DIR) / "rl"
DEEDS = (
    r"Deployment\.promote\(",
    r"Deployment\.swap\(",
    r"\b(key|old|row)\.revoke\(",
    r"\brun\.(requeue|cancel)\(",
    r"TrainingRun\.objects\.create\(",
    r"\.move\(ModelVersion\.Stage\.(DEPLOYED|EXPORTED|RETIRED)\)",
    r"\.update\(state=_State\.(RUNNING|STOPPED)",
)
"""Calls that change what others must be able to reconstruct."""


@cache
def functions() -> list[tuple[str, str]]:
    found = []
    for file in sorted(RL.rglob("*.py")):
        if "models" in file.parts or "migrations" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append((f"{file.relative_to(RL)}:{node.name}", ast.unparse(node)))
    return found


def test_whatever_does_a_deed_records_it():
    doing = [(name, text) for name, text in functions() if any(re.search(deed, text) for deed in DEEDS)]
    assert len(doing) >= 8
    assert [name for name, text in doing if "record(" not in text] == []


def test_every_deed_is_done_somewhere():
    assert [deed for deed in DEEDS if not any(re.search(deed, text) for _, text in functions())] == []


@pytest.mark.django_db
def test_what_staff_can_delete_is_watched(bob: User):
    request = RequestFactory().get("/admin/")
    request.user = bob
    deletable = {model for model, of in admin.site._registry.items() if of.has_delete_permission(request)}
    ours = {model for model in deletable if model._meta.app_label in ("rl", "auth")}
    assert ours
    assert ours <= set(WATCHED)


def test_every_kind_of_event_is_recorded_somewhere():
    code = "\n".join(file.read_text() for file in RL.rglob("*.py") if "models" not in file.parts)
    assert [action.name for action in AuditEvent.Action if f"Action.{action.name}" not in code] == []
