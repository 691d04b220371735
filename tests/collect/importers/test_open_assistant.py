from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.collect.importers import open_assistant
from tests.collect.importers.reading import lines, reason, taken


def asked(text: str, *replies: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"message_id": f"q-{text}", "text": text, "role": "prompter", "replies": list(replies), **more}


def answered(text: str, rank: int | None = None, *replies: dict[str, Any], **more: Any) -> dict[str, Any]:
    name = f"a-{text}"
    return {"message_id": name, "text": text, "role": "assistant", "rank": rank, "replies": list(replies), **more}


def tree(root: dict[str, Any]) -> dict[str, Any]:
    return {"message_tree_id": root["message_id"], "tree_state": "ready_for_export", "prompt": root}


def read(folder: Any, *rows: dict[str, Any]) -> dict[str, Any]:
    return {answer.response: answer for answer in taken(open_assistant, lines(folder, *rows))}


def worse_than(answers: dict[str, Any], text: str) -> set[str]:
    return {pick.other_external_id.removeprefix("a-") for pick in answers[text].feedback}


TREE = tree(
    asked("Why?", answered("No.", 1), answered("So.", 0, asked("And?", answered("Then.", 0))), answered("?", 2))
)


def test_each_reply_is_an_answer_and_the_best_one_is_better_than_each_other(tmp_path):
    answers = read(tmp_path, TREE)
    assert set(answers) == {"No.", "So.", "?", "Then."}
    assert worse_than(answers, "So.") == {"No.", "?"}
    assert all(not answers[text].feedback for text in ("No.", "?", "Then."))
    assert [message["content"] for message in answers["Then."].prompt] == ["Why?", "So.", "And?"]
    assert [message["role"] for message in answers["Then."].prompt] == ["user", "assistant", "user"]


def test_a_question_with_its_replies_is_a_tree_too(tmp_path):
    assert set(read(tmp_path, TREE["prompt"])) == {"No.", "So.", "?", "Then."}


def test_answers_come_before_the_one_that_is_compared_with_them(tmp_path):
    names = [answer.external_id for answer in taken(open_assistant, lines(tmp_path, TREE))]
    assert names.index("a-So.") > max(names.index("a-No."), names.index("a-?"))


def test_replies_without_a_rank_are_compared_with_none(tmp_path):
    answers = read(tmp_path, tree(asked("Why?", answered("So."), answered("No.", 0), answered("?", 0))))
    assert all(not answer.feedback for answer in answers.values())


def test_what_was_deleted_or_is_spam_is_left_out_with_what_follows(tmp_path):
    spam = answered("Buy!", 0, asked("What?", answered("This.")), review_result=False)
    gone = answered("Oops", 1, deleted=True)
    answers = read(tmp_path, tree(asked("Why?", spam, gone, answered("So.", 2))))
    assert set(answers) == {"So."}


def test_a_thread_is_one_answer(tmp_path):
    talk = [{"text": "Why?", "role": "prompter"}, {"text": "So.", "role": "assistant"}]
    answers = read(tmp_path, {"thread_id": "t", "thread": talk})
    assert answers["So."].external_id == "t"
    assert [message["content"] for message in answers["So."].prompt] == ["Why?"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (tree(asked("Why?")), "a question that has no answer"),
        (tree(asked("Why?", {"role": "assistant", "text": 5})), "a message has no text"),
        (tree({**asked("Why?", answered("So.")), "role": "moderator"}), "role must be one of prompter, assistant"),
        (tree(asked("Why?", {**answered("So."), "rank": "best"})), "rank must be a number"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_line(tmp_path, row: dict[str, Any], why: str):
    assert why in reason(open_assistant, tmp_path, row, TREE)


def test_a_deep_tree_is_read_to_its_end(tmp_path):
    deep = asked("0", answered("last"))
    for number in range(1, 14):
        deep = asked(str(number), answered(f"answer {number}", None, deep))
    assert len(read(tmp_path, tree(deep))["last"].prompt) == 27


def test_a_file_of_single_messages_is_refused_with_the_file_to_take(tmp_path):
    row = {"message_id": "1", "parent_id": None, "text": "Why?", "role": "prompter"}
    with pytest.raises(BadFile, match=r"import the one whose name ends in trees\.jsonl\.gz"):
        list(open_assistant.read(lines(tmp_path, row)))
