from __future__ import annotations

import pytest

from rl import sandbox
from rl.base.errors import SandboxUnavailable
from rl.rewards import SyntaxValidationReward
from rl.rewards.blocks import LONGEST
from rl.rewards.syntax_validation import MOST_BLOCKS
from tests.rewards.records import record


def compute(response: str):
    return SyntaxValidationReward().compute(record(response))


def test_it_is_the_share_of_the_blocks_that_can_be_parsed():
    result = compute("```python\nx = 1\n```\n```json\n{1}\n```\n```sql\nSELECT 1\n```\n```rust\nfn\n```\n")
    assert (result.value, result.reason) == (2 / 3, "2 of 3 code blocks can be parsed")
    assert result.details["blocks"][1] == {"language": "json", "valid": False}


@pytest.mark.parametrize("response", ["", "Just words.", "```\nplain\n```", "```rust\nfn\n```", "x" * (LONGEST + 1)])
def test_without_a_block_that_can_be_judged_it_does_not_apply(response):
    assert compute(response).value is None


def test_a_block_that_cannot_be_judged_is_left_out():
    deep = "```json\n" + "[" * 10_000 + "\n```\n"
    assert compute(deep).value is None
    assert compute(f"{deep}```json\n[]\n```").value == 1.0


def test_only_so_many_blocks_are_looked_at():
    assert len(compute("```json\n1\n```\n" * 50).details["blocks"]) == MOST_BLOCKS


def test_shell_without_a_sandbox_is_left_out(monkeypatch):
    def unavailable(*args, **kwargs):
        raise SandboxUnavailable("install bubblewrap")

    monkeypatch.setattr(sandbox, "run", unavailable)
    assert compute("```sh\nls\n```").value is None
    assert compute("```sh\nls\n```\n```json\n[]\n```").value == 1.0
