from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rl.collect.capture.execution_trace import ExecutionTrace
from rl.from_systems.toolbox.checkpoints.overlap import Session, longest_beginning

words = st.lists(st.tuples(st.sampled_from("ab"), st.just("1")), max_size=12)


def common(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


@given(words, words)
def test_the_longest_beginning_is_that_of_trying_each(part: list[tuple[str, str]], whole: list[tuple[str, str]]):
    match = longest_beginning(part, whole)
    assert match.length == max((common(part, whole[at:]) for at in range(len(whole))), default=0)
    assert part[: match.length] == whole[match.start : match.start + match.length]


def window(said: str) -> list[ExecutionTrace]:
    return [ExecutionTrace("", session_id="s", user_query=query, final_response="1") for query in said]


@given(st.text("abcdefgh", min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 6))
def test_windows_that_slide_over_a_history_give_each_of_its_conversations_once(said: str, size: int, step: int):
    """Where each shares a conversation with the one before that occurs only once."""
    unique = "".join(dict.fromkeys(said))
    session, ids = Session(), {}
    for start in range(0, len(unique), min(step, size)):
        part = window(unique[start : start + size])
        session.identify(part)
        ids |= {trace.trace_id: trace.user_query for trace in part}
    assert sorted(ids.values()) == sorted(unique)
