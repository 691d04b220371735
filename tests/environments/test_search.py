import pytest

from rl.environments.dialects.hermes import read_action
from rl.environments.search import SearchEnv
from rl.environments.tools.search import SearchDocuments

TASK = {
    "task_id": "bonn",
    "question": "On which river is Bonn?",
    "answer": "The  Rhine",
    "documents": ["Bonn is on the Rhine.", "Paris is on the Seine."],
}


def search(query: str) -> str:
    return f'<tool_call>{{"name": "search", "arguments": {{"query": "{query}"}}}}</tool_call>'


def test_the_documents_of_the_task_are_searched_and_the_history_is_kept():
    environment = SearchEnv()
    assert environment.reset(TASK)[-1] == {"role": "user", "content": "On which river is Bonn?"}
    assert environment.step(read_action(search("Bonn"))).observation == "[1] Bonn is on the Rhine."
    last = environment.step(read_action("It is on THE\nRHINE, of course."))
    assert (last.reward, last.info["search_history"]) == (1.0, ["Bonn"])


def test_another_answer_is_wrong_and_says_what_was_expected():
    environment = SearchEnv()
    environment.reset(TASK)
    last = environment.step(read_action("On the Seine."))
    assert (last.reward, last.info["expected"], last.info["search_history"]) == (0.0, "The  Rhine", [])


def test_the_documents_of_one_task_are_not_those_of_the_next():
    environment = SearchEnv()
    environment.reset(TASK)
    environment.reset({"task_id": "x", "question": "?", "answer": "y"})
    assert environment.step(read_action(search("Bonn"))).observation == "nothing found"


def test_a_corpus_of_your_own_is_searched_where_the_task_has_no_documents():
    environment = SearchEnv((SearchDocuments(["Rome is on the Tiber."]),))
    environment.reset({"task_id": "x", "question": "?", "answer": "y"})
    assert environment.step(read_action(search("Rome"))).observation == "[1] Rome is on the Tiber."
    environment.reset(TASK)
    assert environment.step(read_action(search("Rome"))).observation == "nothing found"


@pytest.mark.parametrize("empty", ["", "   "])
def test_an_answer_of_nothing_is_wrong(empty: str):
    environment = SearchEnv()
    environment.reset(TASK)
    assert environment.step(read_action(empty)).reward == 0.0


@pytest.mark.parametrize(
    ("expected", "answer", "right"),
    [
        ("5895", "Kilimanjaro is 5,895 metres tall.", True),
        ("5,895", "It is 5895 metres.", True),
        ("1234567", "There are 1,234,567 of them.", True),
        ("1,234,567", "1'234'567", True),
        ("5895", "5\u202f895 m", True),
        ("589", "5,89", False),
        ("1995", "1,9,95", False),
        ("12", "1,2", False),
        ("3.5", "3,5", False),
    ],
)
def test_the_marks_between_thousands_tell_nothing_apart(expected: str, answer: str, right: bool):
    environment = SearchEnv()
    environment.reset({"task_id": "x", "question": "?", "answer": expected})
    assert environment.step(read_action(answer)).info["success"] is right


def test_running_out_of_turns_has_the_penalty():
    environment = SearchEnv(max_turns=2, timeout_penalty=-0.3)
    environment.reset(TASK)
    environment.step(read_action(search("Bonn")))
    last = environment.step(read_action(search("Rhine")))
    assert (last.reward, last.info["reason"]) == (-0.3, "no answer within 2 turns")


def test_a_wrong_answer_may_leave_the_episode_open():
    environment = SearchEnv(wrong_answer_ends=False, max_turns=3)
    environment.reset(TASK)
    wrong = environment.step(read_action("On the Seine."))
    assert (wrong.done, wrong.observation) == (False, environment.after_wrong_answer)
    assert environment.step(read_action("On the Rhine.")).reward == 1.0


def test_a_task_without_a_query_of_its_own_is_demonstrated_by_its_question():
    task = {
        "task_id": "t",
        "question": "How high is Etna?",
        "answer": "3403",
        "documents": ["Etna is 3,403 metres high."],
    }
    search, answer = SearchEnv().demonstration(task)
    assert (search.calls[0].name, search.calls[0].arguments) == ("search", {"query": "How high is Etna?"})
    assert answer.text == "Etna is 3,403 metres high."
    query = {**task, "metadata": {"query": "Etna height"}}
    assert SearchEnv().demonstration(query)[0].calls[0].arguments == {"query": "Etna height"}
