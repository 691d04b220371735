"""The form of an answer."""

import math

import pytest

from rl.judge.form import WIDTH, form_of

ASKED = "Write a short title for my story about the harbour."
ANSWER = "I can help you with that. The harbour at night."
HOSTILE = [
    "",
    " ",
    "\n" * 100_000,
    " " * 100_000,
    "\0",
    "\ud800",
    "a" * 50_000,
    "?!" * 20_000,
    "1. " * 5_000,
    "1" * 50_000,
    "نص بالعربية",
    "🙂",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_has_its_numbers(text: str):
    for numbers in (form_of(ASKED, text), form_of(text, ANSWER)):
        assert len(numbers) == WIDTH
        assert all(math.isfinite(number) for number in numbers)


@pytest.mark.parametrize(
    ("worse", "what"),
    [
        (ANSWER + " " + ANSWER, "said twice"),
        ("I am sorry, I cannot help you with that. The harbour at night.", "an apology"),
        (ASKED, "the question again"),
        ("### " + ANSWER, "a mark of a template"),
        (ANSWER.lower(), "no capitals"),
        (ANSWER[:-5], "cut"),
        ("- I can help you with that.\n- The harbour at night.", "a list"),
        ("```\n" + ANSWER + "\n```", "code"),
        (ANSWER + "?", "a question"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_people_see_at_a_glance_changes_it(worse: str, what: str):
    assert form_of(ASKED, worse) != form_of(ASKED, ANSWER), what


def test_length_counts_apart_where_little_or_much_is_asked_for():
    long = ANSWER * 5
    changes = [
        [a - b for a, b in zip(form_of(prompt, long), form_of(prompt, ANSWER), strict=True)][-3:]
        for prompt in (
            ASKED.replace("Write a", "A").replace("story", "book"),
            "Explain it in detail.",
            "Some python code.",
        )
    ]
    for own, change in enumerate(changes):
        assert [number for number, value in enumerate(change) if value > 0] == [own]
