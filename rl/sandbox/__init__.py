"""Runs untrusted code, or refuses: there is no way to run it unprotected. See docs/sandbox.md.

Imports: base."""

# ruff: noqa: F401  for others to import from here
from rl.sandbox.backends import BACKENDS, available, ensure_available, run
from rl.sandbox.contract import Limits, Result
from rl.sandbox.grading import Grade, TestCase, call, grade
from rl.sandbox.programs import LANGUAGES
