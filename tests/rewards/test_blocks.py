import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.rewards.blocks import LONGEST, Block, fenced_blocks, outside

ANSWER = """First:

```Python title="a.py"
print(1)
```

> ~~~{.bash}
> ls
> ~~~

- and
  ```json
  {}
  ```

```
plain
```
`inline`

```yml
open: 1"""


def test_blocks_are_found_as_markdown_has_them():
    found = [(block.language, block.code, block.closed) for block in fenced_blocks(ANSWER) or []]
    assert found == [
        ("python", "print(1)\n", True),
        ("shell", "ls\n", True),
        ("json", "{}\n", True),
        ("", "plain\n", True),
        ("yaml", "open: 1", False),
    ]


def test_a_longer_fence_holds_a_shorter_one():
    (block,) = fenced_blocks("````\n```\nx\n```\n````") or []
    assert block.code == "```\nx\n```\n"


def test_what_is_outside_of_the_blocks_is_left():
    assert (
        outside("a\r\n```\r\nb\r\n```\r\nc\u2028d", fenced_blocks("a\r\n```\r\nb\r\n```\r\nc\u2028d") or [])
        == "a\nc\u2028d"
    )


def test_a_text_that_is_too_long_is_not_looked_at():
    assert fenced_blocks("x" * (LONGEST + 1)) is None


@pytest.mark.parametrize(
    "text",
    [">", "- ", "```\n", "[a]: b\n", "[a", "<a ", "<!--", "~~~\n", "\t", "1. ", "[a]: <", "&", "> - ", "a\n", "***\n"],
)
def test_hostile_markdown_is_read_in_moments(text):
    started = time.process_time()
    fenced_blocks((text * LONGEST)[:LONGEST])
    assert time.process_time() - started < 30


@given(st.text(alphabet="`~ \n\r>-ab{}\u2028\x00", max_size=80))
def test_any_text_gives_blocks_that_lie_in_it(text):
    blocks: list[Block] = fenced_blocks(text) or []
    for block in blocks:
        assert 0 <= block.lines[0] < block.lines[1]
    assert len(outside(text, blocks)) <= len(text)
