"""Rows as they would be trained, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from rl.runs.preview import Preview

LONGEST = 2_000
"""Characters of a text that are printed."""
_SAID = ("weight", "label", "label_source", "score", "score_source", "reward", "rewards")


def preview_lines(name: str, shown: Preview) -> Iterator[str]:
    """What is learned stands between brackets, a token each. ``name``: whose rows they are."""
    for number, row in enumerate(shown.rows, 1):
        tokens = [] if row["prompt_tokens"] is None else [f"{row['prompt_tokens']} tokens of prompt"]
        facts = [f"{what} {row[what]}" for what in _SAID if row.get(what) is not None]
        about = ", ".join([*tokens, *facts, f"ratings {len(row.get('feedback', ()))}"])
        yield f"{name}, row {number} ({about}): {printable(row['prompt'], last=True)}"
        for answer in row["answers"]:
            pieces = "".join(f"[{text}]" if own else text for text, own in answer["pieces"])
            yield f"  {answer['name']}: {printable(pieces)}"
    if shown.is_text:
        yield "the base model is not on this machine: rows are shown as texts, not as its tokens"
    for row in shown.left_out:
        yield f"{name}, left out: {printable(row['reason'])}: {printable(row['question'])}"
    if shown.problem:
        yield f"{name}: a run would end: {shown.problem}"
    for reason, count in shown.counts.items():
        yield f"{name}, {count:,} left out: {printable(reason)}"


def printable(text: str, last: bool = False) -> str:
    """What others wrote breaks its own lines, and tells the terminal nothing. A long text is its beginning, or its ``last``
    part."""
    if len(text) > LONGEST:
        text = f"… {text[-LONGEST:]}" if last else f"{text[:LONGEST]} …"
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)
