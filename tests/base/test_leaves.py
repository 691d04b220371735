from __future__ import annotations

import gc
import sys

import pytest

from rl.base.errors import UsageError
from rl.base.leaves import leaf


def test_a_leaf_is_its_module():
    assert leaf("rl.config.levels").LEVELS


def test_a_machine_without_the_training_packages_is_told_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "rl.training.dpo", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"datasets.* is not installed.*pip install -r requirements-rl\.txt"):
        leaf("rl.training.dpo")


def test_a_module_of_ours_that_is_missing_is_a_bug_and_keeps_its_traceback():
    with pytest.raises(ModuleNotFoundError):
        leaf("rl.training.no_such_method")


def test_nothing_is_collected_while_a_leaf_is_imported(monkeypatch, tmp_path):
    (tmp_path / "looks_at_the_collector.py").write_text("import gc\nIS_ON = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert (leaf("looks_at_the_collector").IS_ON, gc.isenabled()) == (False, True)
