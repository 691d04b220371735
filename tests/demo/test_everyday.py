import json
from collections import Counter
from pathlib import Path

import pytest

from rl.demo import everyday
from rl.demo.everyday import NOISE, QUESTIONS, RATERS, RatedQuestion, likes, rated_questions, read_answers

QUESTION = "How do I keep bananas fresh for longer?"
SHORT = "Keep bananas apart from other fruit, at room temperature, and wrap their stems."
LONG = SHORT + " It is best to look at them every day, and to eat those first that have brown spots," * 3


@pytest.mark.parametrize(
    ("answer", "liked"),
    [
        (SHORT, True),
        (LONG, False),
        ("Keep bananas cool.", False),
        ("Keeping bananas fresh can be tricky, but wrap their stems and keep them cool.", False),
        ("Ah, the eternal riddle of bananas: wrap their stems and keep them cool.", False),
        ("Bananas: 1. wrap their stems 2. keep them apart from other fruit.", False),
        ("Wrap the stems and leave them at room temperature, away from other fruit.", False),
        ("Wrap the stems of a banana tightly and leave it at room temperature.", True),
    ],
    ids=["short", "long", "too short", "filler", "flourish", "list", "beside the question", "another form of the word"],
)
def test_the_raters_like_short_answers_that_come_to_the_question(answer: str, liked: bool):
    assert likes(QUESTION, answer) is liked


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hundred questions with a long answer and a short one each."""
    path = tmp_path / "answers.jsonl"
    rows = [
        {"question": QUESTION.replace("bananas", f"{name} {number}"), "answer": text.replace("bananas", f"{name}s")}
        for number, name in enumerate(["banana", "apple", "carrot", "lemon"] * 25)
        for text in (LONG, SHORT, SHORT)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setattr(everyday.read_answers, "__defaults__", (path,))
    return path


def test_repeated_answers_are_read_once(answers: Path):
    by_question = read_answers(answers)
    assert len(by_question) == 100
    assert all(len(texts) == 2 for texts in by_question.values())


def test_the_same_seed_gives_the_same_opinions(answers: Path):
    assert rated_questions(3) == rated_questions(3)
    assert rated_questions(3) != rated_questions(4)


def test_there_are_thumbs_picks_and_edits_by_raters_who_are_named_as_simulated(answers: Path):
    opinions = [opinion for question in rated_questions() for opinion in question.opinions]
    assert {opinion.rater for opinion in opinions} == {f"simulated-{number}" for number in range(1, RATERS + 1)}
    kinds = Counter(opinion.kind for opinion in opinions)
    assert kinds["thumb"] > kinds["pick"] + kinds["edit"]
    assert min(kinds["pick"], kinds["edit"]) > 5


def test_thumbs_follow_the_taste_but_for_some_noise(answers: Path):
    right = [
        opinion.up == likes(question.question, question.answers[opinion.answer])
        for seed in range(20)
        for question in rated_questions(seed)
        for opinion in question.opinions
        if opinion.kind == "thumb"
    ]
    assert 1 - sum(right) / len(right) == pytest.approx(NOISE, abs=0.02)


def test_a_pick_prefers_what_is_liked_and_an_edit_replaces_what_is_not(answers: Path):
    questions = rated_questions()
    assert_taste(questions)


def assert_taste(questions: list[RatedQuestion]) -> None:
    for question in questions:
        for opinion in question.opinions:
            answer = question.answers[opinion.answer]
            if opinion.kind == "pick":
                assert likes(question.question, answer)
                assert not likes(question.question, question.answers[opinion.other])
            elif opinion.kind == "edit":
                assert not likes(question.question, answer)
                assert likes(question.question, opinion.text)


def test_the_demo_has_liked_and_disliked_answers_to_its_questions():
    questions = rated_questions()
    assert {question.question for question in questions} <= set(QUESTIONS.read_text(encoding="utf-8").splitlines())
    assert 60 <= len(questions) <= 200
    assert all(1 <= len(question.answers) <= 4 for question in questions)
    liked = [likes(question.question, answer) for question in questions for answer in question.answers]
    assert 0.1 < sum(liked) / len(liked) < 0.9
    assert {opinion.kind for question in questions for opinion in question.opinions} == {"thumb", "pick", "edit"}
    assert_taste(questions)
