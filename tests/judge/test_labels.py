"""Rows of training sets as opinions."""

from rl.judge.labels import MOST_ROWS, Answers, opinions_of, sample_rows


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def row(key: str = "q1", **columns):
    return {"prompt": [{"role": "user", "content": key}], "prompt_key": key, **columns}


def test_a_pair_is_an_opinion_on_two_answers():
    answers = Answers()
    [opinion] = opinions_of([row(chosen=said("good"), rejected=said("bad"), weight=0.4)], answers)
    assert (opinion.answer, opinion.other, opinion.weight, opinion.prompt) == (0, 1, 0.4, "q1")
    assert [text for _, text in answers.conversations] == ["good", "bad"]


def test_single_answers_are_liked_disliked_labelled_or_scored():
    rows = [
        row(chosen=said("a"), rejected=None),
        row(chosen=None, rejected=said("b")),
        row(completion=said("c"), label=False),
        row(completion=said("d"), score=0.3),
    ]
    opinions = opinions_of(rows, Answers())
    assert [opinion.value for opinion in opinions] == [1.0, 0.0, 0.0, 0.3]
    assert all(opinion.other is None for opinion in opinions)


def test_a_group_is_its_best_against_its_worst_unless_all_are_alike():
    rows = [
        row(completions=[said("a"), said("b"), said("c")], rewards=[0.2, 0.9, 0.1]),
        row("q2", completions=[said("a"), said("b")], rewards=[0.5, 0.5]),
    ]
    answers = Answers()
    [opinion] = opinions_of(rows, answers)
    assert [answers.conversations[number][1] for number in (opinion.answer, opinion.other)] == ["b", "c"]


def test_prompts_and_tasks_hold_no_opinion():
    assert opinions_of([row(details={}), row(task={})], Answers()) == []


def test_the_same_answer_to_the_same_prompt_is_there_once():
    answers = Answers()
    opinions_of([row(completion=said("a"), label=True), row(completion=said("a"), label=True)], answers)
    opinions_of([row("q2", completion=said("a"), label=True)], answers)
    assert len(answers.conversations) == 2


def test_a_sample_keeps_the_rows_of_a_prompt_together_and_does_not_depend_on_their_order():
    rows = [row(f"q{number // 2}", number=number) for number in range(2 * MOST_ROWS)]
    sample = sample_rows(rows)
    keys = [chosen["prompt_key"] for chosen in sample]
    assert len(sample) == MOST_ROWS
    assert all(keys.count(key) == 2 for key in set(keys))
    assert {chosen["number"] for chosen in sample} == {chosen["number"] for chosen in sample_rows(rows[::-1])}


def test_what_an_answer_calls_is_among_its_words():
    calls = [{"id": "c1", "type": "function", "function": {"name": "track", "arguments": {"number": "4711"}}}]
    run = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "in Bonn"},
        *said("Bonn."),
    ]
    answers = Answers()
    opinions_of([row(completion=run, score=1.0), row(completion=[*run[1:]], score=0.0)], answers)
    first, second = (text for _, text in answers.conversations)
    assert first == '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>\nin Bonn\nBonn.'
    assert second == "in Bonn\nBonn."
