"""The web process and ``manage.py help`` never pay for torch."""

import subprocess
import sys

import pytest
from django.conf import settings

pytestmark = pytest.mark.process


LOOK = """
import sys, os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
import django
django.setup()
from importlib import import_module
from pkgutil import iter_modules
import backend.urls, backend.asgi, rl.tasks, rl.admin
from django.urls import get_resolver
get_resolver().url_patterns
import rl.management.commands as commands
names = [module.name for module in iter_modules(commands.__path__)]
for name in names:
    import_module(f"rl.management.commands.{name}")
assert len(names) >= 5, names
heavy = {"torch", "transformers", "trl", "peft", "datasets", "accelerate", "numpy"}
print(sorted(heavy & set(sys.modules)))
"""


def test_urls_admin_tasks_and_commands_load_without_a_machine_learning_package():
    result = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=1800
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
