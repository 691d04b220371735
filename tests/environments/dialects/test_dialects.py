from __future__ import annotations

import pytest

from rl.environments.contract import ToolRequest
from rl.environments.dialects import DIALECTS, dialect

CALLS = (ToolRequest("search", {"query": "Bonn", "most": 3}), ToolRequest("stop"))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_what_it_writes(name: str):
    assert dialect(name).read_action(dialect(name).write_calls(CALLS)).calls == CALLS


@pytest.mark.parametrize("writer", DIALECTS)
@pytest.mark.parametrize("reader", DIALECTS)
def test_no_dialect_takes_the_calls_of_another_for_its_own(writer: str, reader: str):
    if reader != writer:
        assert not dialect(reader).read_action(dialect(writer).write_calls(CALLS)).calls
