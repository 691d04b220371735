import gc
import sys

import pytest

from rl.base.errors import UsageError
from rl.base.leaves import leaf, not_collected


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


def test_nothing_is_collected_inside_and_all_is_as_before_afterwards():
    with not_collected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_inside_does_not_leave_it_off():
    with pytest.raises(ImportError), not_collected():
        raise ImportError
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off():
    gc.disable()
    try:
        with not_collected(), not_collected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("before", "inside", "is_frozen"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_only_what_is_there_when_torch_comes_is_never_looked_through(monkeypatch, before, inside, is_frozen):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(sys, "modules", {"torch": sys} if before else {})
    with not_collected():
        if inside:
            sys.modules["torch"] = sys
    assert bool(frozen) is is_frozen
