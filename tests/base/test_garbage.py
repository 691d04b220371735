from __future__ import annotations

import gc
import sys

import pytest

from rl.base.garbage import not_collected


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
