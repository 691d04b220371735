import logging
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl import sandbox
from rl.base.errors import SandboxUnavailable
from rl.rewards import SyntaxValidationReward
from rl.rewards.blocks import LONGEST as LONGEST_ANSWER
from rl.rewards.syntax import CHECKS, LONGEST, MOST_BLOCKS, is_valid
from tests.rewards.records import record

IN_PROCESS = sorted(set(CHECKS) - {"shell"})


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "async def f(x: int = 1) -> list[int]:\n    return [await g(y) async for y in x if (z := y)]"),
        ("python", ""),
        ("python", r"print('\d')"),
        ("json", ' {"a": [1.5e3, true, null, "\\u00e4"]} '),
        ("yaml", "a: &x [1, 2]\nb: *x\n---\nc: |\n  text\n"),
        ("yaml", "a: !!python/object/apply:os.system ['true']"),
        ("sql", "SELECT a, count(*) FROM t JOIN s USING (id) WHERE a > 1 GROUP BY a;"),
        ("sql", "-- first\nCREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x');"),
        ("sql", "PRAGMA foreign_keys = ON"),
        ("sql", "SELECT data->>'name' FROM t WHERE tags @> ARRAY['x'] LIMIT 5"),
        ("sql", "SELECT TOP 5 [name] FROM [dbo].[users]"),
        ("sql", "WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT * FROM c"),
        ("sql", "EXPLAIN ANALYZE SELECT 1"),
    ],
)
def test_what_is_right_is_taken(language, text):
    assert is_valid(language, text) is True


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "print 'hello'"),
        ("python", "def f(:\n  pass"),
        ("python", "x = 1\n  y = 2"),
        ("python", "a\x00b"),
        ("json", "{'a': 1}"),
        ("json", "[1,]"),
        ("json", "[NaN]"),
        ("json", ""),
        ("yaml", "a: [1, 2"),
        ("yaml", "a: 1\n b: 2"),
        ("yaml", "b: *nowhere"),
        ("yaml", "a: &x 1\n---\nb: *x"),
        ("sql", "SELEC 1"),
        ("sql", "SELECT * FROM t WHERE"),
        ("sql", "CREATE TABLE t (a INT, "),
        ("sql", "hello world"),
        ("sql", "1"),
        ("sql", ""),
        ("sql", "-- nothing"),
    ],
)
def test_what_is_wrong_is_not_taken(language, text):
    assert is_valid(language, text) is False


@pytest.mark.process
@pytest.mark.usefixtures("_sandbox")
@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('for f in *.txt; do [[ -f $f ]] && wc -l <(sort "$f"); done', True),
        ("cat <<EOF\nhello $USER\nEOF", True),
        ("if true; then echo yes", False),
        ("echo 'open", False),
        ("{\U000f0041}", True),
        ("rm -rf / # is read, not run", True),
    ],
)
def test_shell_is_read_by_bash_in_the_sandbox(text, valid):
    assert is_valid("shell", text) is valid


def test_a_text_that_is_too_long_is_not_judged():
    for language in CHECKS:
        assert is_valid(language, "1" * (LONGEST + 1)) is None


NESTED = {
    "python": ["(", "[[", "-", "not ", "a.", "lambda:", "1+", "f(", "'"],
    "json": ["[", '{"a":', "-"],
    "yaml": ["[", "{a: ", "- ", "? ", "&a "],
    "sql": ["(", "a.", "1+", "- ", "CASE WHEN ", "SELECT (", "f(", "'", "NOT "],
}


@pytest.mark.parametrize(("language", "text"), [(language, text) for language in NESTED for text in NESTED[language]])
def test_nested_text_is_given_up_in_moments_and_breaks_nothing(language, text):
    started = time.process_time()
    assert is_valid(language, (text * LONGEST)[:LONGEST]) in (True, False, None)
    assert time.process_time() - started < 30  # half a second alone


def test_aliases_that_multiply_cost_nothing():
    layers = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert is_valid("yaml", "\n".join(["a0: &a0 x", *layers])) is True


@settings(max_examples=60)
@given(st.sampled_from(IN_PROCESS), st.text(max_size=60))
def test_any_text_gets_a_verdict(language, text):
    assert is_valid(language, text) in (True, False, None)


def test_nothing_is_said_of_the_texts(caplog):
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings():
        warnings.simplefilter("error")
        is_valid("python", r"'\d' is 1")
        is_valid("sql", "SHOW secret; VACUUM secret")
    assert "secret" not in caplog.text


def compute(response: str):
    return SyntaxValidationReward().compute(record(response))


def test_it_is_the_share_of_the_blocks_that_can_be_parsed():
    result = compute("```python\nx = 1\n```\n```json\n{1}\n```\n```sql\nSELECT 1\n```\n```rust\nfn\n```\n")
    assert (result.value, result.reason) == (2 / 3, "2 of 3 code blocks can be parsed")
    assert result.details["blocks"][1] == {"language": "json", "valid": False}


@pytest.mark.parametrize(
    "response", ["", "Just words.", "```\nplain\n```", "```rust\nfn\n```", "x" * (LONGEST_ANSWER + 1)]
)
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
