"""Columns as public datasets have them; the words are made up."""

import csv
import json
from typing import Any

import pytest

from rl.collect.importers import openai_chat, sharegpt, trl
from tests.collect.importers.reading import lines, one, reason, said, taken

ASKED, GOOD, BAD = said("user", "Name a river."), said("assistant", "The Elbe."), said("assistant", "A hill.")
EARLIER = [said("user", "Hi"), said("assistant", "Hello.")]
BRIEF = said("system", "Be brief.")
PAIR = {"chosen": "The answer is 4", "rejected": "The answer is 5"}


def prompts_and_answers(folder: Any, row: dict[str, Any], module: Any = trl) -> tuple[list[Any], list[str]]:
    """What both answers were asked, as roles and texts, and what they are, the better one first."""
    worse, better = taken(module, lines(folder, row))
    assert worse.prompt == better.prompt
    return [(message["role"], message["content"]) for message in better.prompt], [better.response, worse.response]


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"prompt": "Name a river.", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}, ["Name a river."]),
        ({"prompt": [ASKED], "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}, ["Name a river."]),
        ({"prompt": " Name  a river.\n", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}, ["Name a river."]),
        (
            {"prompt": "Name a river.", "chosen": [*EARLIER, ASKED, GOOD], "rejected": [*EARLIER, ASKED, BAD]},
            ["Hi", "Hello.", "Name a river."],
        ),
        (
            {"prompt": "Hi", "chosen": [*EARLIER, ASKED, GOOD], "rejected": [*EARLIER, ASKED, BAD]},
            ["Hi", "Hello.", "Name a river."],
        ),
        (
            {"prompt": [BRIEF, ASKED], "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]},
            ["Be brief.", "Name a river."],
        ),
        (
            {"prompt": "Name a river.", "chosen": [BRIEF, ASKED, GOOD], "rejected": [BRIEF, ASKED, BAD]},
            ["Be brief.", "Name a river."],
        ),
        (
            {"system": "Be brief.", "chosen": [BRIEF, ASKED, GOOD], "rejected": [BRIEF, ASKED, BAD]},
            ["Be brief.", "Name a river."],
        ),
        (
            {"prompt": EARLIER, "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]},
            ["Hi", "Hello.", "Name a river."],
        ),
    ],
)
def test_a_question_that_stands_in_the_answers_too_is_asked_once(tmp_path, row, asked):
    prompt, answers = prompts_and_answers(tmp_path, row)
    assert [text for _, text in prompt] == asked
    assert answers == ["The Elbe.", "A hill."]


def test_whole_chats_are_known_in_single_answers_too(tmp_path):
    trace = one(trl, tmp_path, {"prompt": "Name a river.", "completion": [ASKED, GOOD], "label": True})
    assert (len(trace.prompt), trace.response, len(trace.feedback)) == (1, "The Elbe.", 1)
    group = taken(trl, lines(tmp_path, {"prompt": [ASKED], "completions": [[ASKED, GOOD], [ASKED, BAD]]}))
    assert [(len(trace.prompt), trace.response) for trace in group] == [(1, "The Elbe."), (1, "A hill.")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prompt": "Name a town."}, "chosen is a whole chat that begins with another question"),
        ({"prompt": [said("system", "x"), ASKED], "chosen": [BRIEF, ASKED, GOOD]}, "chosen begins with another system"),
        ({"prompt": " "}, "chosen is a whole chat that begins with another question"),
    ],
)
def test_two_chats_in_one_row_are_refused(tmp_path, change, why):
    row = {"prompt": "Name a river.", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}
    assert reason(trl, tmp_path, {**row, **change}, row).startswith(why)


CHAT = {"messages": [ASKED, GOOD]}
LABELLED = [
    (trl, CHAT),
    (trl, {"prompt": "Q", "completion": "A"}),
    (trl, {"instruction": "Q", "input": "", "output": "A"}),
    (trl, {"question": "Q", "answer": "A"}),
    (openai_chat, CHAT),
    (sharegpt, {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}),
]


GOOD_WORDS = (True, 1, 1.0, "true", "True", "1", "desirable", "Thumbs up", "👍🏽")
BAD_WORDS = (False, 0, "FALSE", "0", "bad", "thumbs_down", "not helpful")


@pytest.mark.parametrize(("module", "row"), LABELLED)
@pytest.mark.parametrize("name", ["label", "kto_tag", "Label"])
@pytest.mark.parametrize(("words", "thumb"), [(GOOD_WORDS, 1), (BAD_WORDS, 0)])
def test_a_label_is_a_thumb_however_it_is_written(tmp_path, module, row, name, words, thumb):
    for trace in taken(module, lines(tmp_path, *({**row, name: word} for word in words))):
        assert [(said.scale, said.value) for said in trace.feedback] == [("thumb", thumb)]
        assert name not in trace.details
        assert trace.columns[name] == "read as a thumb"


@pytest.mark.parametrize(("module", "row"), LABELLED)
@pytest.mark.parametrize("value", ["perhaps", 2, -1, 0.5, [], {"x": 1}])
def test_a_label_that_says_nothing_is_refused_by_its_line(tmp_path, module, row, value):
    assert reason(module, tmp_path, {**row, "label": value}, row).startswith("label must be true or false")


TURNS = [("user", "How do I boil an egg?"), ("assistant", "How soft?"), ("user", "Soft.")]
FORMS = {
    "hh": ("\n\nHuman: {}\n\nAssistant: {}\n\nHuman: {}\n\nAssistant:", " {}", ""),
    "one line break": ("Human: {}\nAssistant: {}\nHuman: {}\nAssistant:", " {}", ""),
    "user": ("User: {}\n\nAssistant: {}\n\nUser: {}\n\nAssistant:", " {}", ""),
    "guanaco": ("### Human: {}### Assistant: {}### Human: {}### Assistant:", " {}", ""),
    "open-assistant": (
        "<|prompter|>{}<|endoftext|><|assistant|>{}<|endoftext|><|prompter|>{}<|endoftext|><|assistant|>",
        "{}",
        "<|endoftext|>",
    ),
    "chatml": (
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
        "<|im_start|>assistant\n",
        "{}",
        "<|im_end|>\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("answers", [("Boil it.", "Boil no eggs."), ("I would wait five minutes.", "I do not know.")])
def test_a_chat_in_one_text_is_cut_between_its_turns(tmp_path, form, answers):
    start, answer, end = FORMS[form]
    start = start.format(*(text for _, text in TURNS))
    whole = {
        name: start + answer.format(text) + end for name, text in zip(("chosen", "rejected"), answers, strict=True)
    }
    assert prompts_and_answers(tmp_path, whole) == (TURNS, list(answers))
    beside = {"prompt": start, "chosen": answer.format(answers[0]), "rejected": answer.format(answers[1])}
    assert prompts_and_answers(tmp_path, beside) == (TURNS, list(answers))
    assert prompts_and_answers(tmp_path, {**whole, "prompt": start}) == (TURNS, list(answers))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"rejected": "\n\nHuman: Another?\n\nAssistant: No."},
            "has no prompt, and chosen and rejected begin with nothing",
        ),
        ({"chosen": "\n\nHuman: Hi\n\nAssistant:"}, "chosen does not end with words of the assistant"),
        (
            {"chosen": "\n\nHuman: Hi\n\nAssistant: Yes?\n\nHuman: Go."},
            "chosen does not end with words of the assistant",
        ),
        ({"chosen": "<s>[INST] Hi [/INST] Yo", "rejected": "<s>[INST] Hi [/INST] No"}, "chosen is a chat that a chat"),
    ],
)
def test_a_chat_in_one_text_that_cannot_be_cut_is_refused(tmp_path, change, why):
    row = {"chosen": "\n\nHuman: Hi\n\nAssistant: Hello.", "rejected": "\n\nHuman: Hi\n\nAssistant: No."}
    assert reason(trl, tmp_path, {**row, **change}, row).startswith(why)


@pytest.mark.parametrize(
    "question",
    ["User: who is that?", "What does this say?\nHuman: a\nAssistant: b", "Human: a\n\nAssistant: b\n\nGo on."],
)
def test_a_question_with_such_marks_inside_stays_one_question(tmp_path, question):
    trace = one(trl, tmp_path, {"prompt": question, "completion": "It is a dialogue."})
    assert trace.prompt == (said("user", question),)


def test_an_answer_that_is_a_dialogue_stays_one_answer(tmp_path):
    dialogue = "Human: Hello.\n\nAssistant: I am here."
    assert one(trl, tmp_path, {"prompt": "Write a dialogue.", "completion": dialogue}).response == dialogue


@pytest.mark.parametrize(
    ("columns", "prompt"),
    [
        ({"instruction": "Add.", "input": "2 and 2"}, [("user", "Add.\n2 and 2")]),
        ({"instruction": "Add 2 and 2.", "input": ""}, [("user", "Add 2 and 2.")]),
        ({"instruction": "Add 2 and 2.", "input": "2 and 2"}, [("user", "Add 2 and 2.")]),
        ({"question": "2+2?", "system": "Be brief."}, [("system", "Be brief."), ("user", "2+2?")]),
        ({"Question": "2+2?", "System_Prompt": "Be brief."}, [("system", "Be brief."), ("user", "2+2?")]),
        ({"input": "2+2?", "system": "Be brief."}, [("system", "Be brief."), ("user", "2+2?")]),
        ({"query": "2+2?"}, [("user", "2+2?")]),
        ({"question": "How many?", "context": "Two and two."}, [("user", "How many?\nTwo and two.")]),
        ({"prompt": "2+2?", "system": "Be brief."}, [("system", "Be brief."), ("user", "2+2?")]),
        ({"prompt": "2+2?", "system": ""}, [("user", "2+2?")]),
        (
            {"instruction": "And?", "history": [["Hi", "Hello."]]},
            [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")],
        ),
        ({"prompt": "And?", "history": EARLIER}, [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")]),
    ],
)
def test_the_question_and_what_stands_beside_it_are_the_prompt(tmp_path, columns, prompt):
    assert prompts_and_answers(tmp_path, {**columns, **PAIR}) == (prompt, ["The answer is 4", "The answer is 5"])
    renamed = {"chosen_response": PAIR["chosen"], "rejected_response": PAIR["rejected"]}
    assert prompts_and_answers(tmp_path, {**columns, **renamed})[0] == prompt
    trace = one(trl, tmp_path, {**columns, "output": "4"})
    assert ([(message["role"], message["content"]) for message in trace.prompt], trace.response) == (prompt, "4")


def test_a_system_column_stands_before_every_form_of_chat(tmp_path):
    assert one(openai_chat, tmp_path, {**CHAT, "system": "Be brief."}).prompt == (BRIEF, ASKED)
    assert one(openai_chat, tmp_path, {"messages": [BRIEF, ASKED, GOOD], "system": "Be brief."}).prompt == (
        BRIEF,
        ASKED,
    )
    assert one(trl, tmp_path, {**CHAT, "system_prompt": "Be brief."}).prompt == (BRIEF, ASKED)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"task": "How much is it in all?", **PAIR}, "has no prompt that is known as one; if 'task'"),
        ({"prompt": "Q", "system": ["x"], **PAIR}, "the system message must be text"),
        ({"prompt": "Q", "history": "x", **PAIR}, "history must be a list"),
        ({"prompt": "Q", "history": [["x"]], **PAIR}, "each turn of history must be"),
        ({"prompt": " ", **PAIR}, "nothing is asked"),
        ({"instruction": "", "input": "", **PAIR}, "nothing is asked"),
        ({"prompt": "Q", "chosen": " \n", "rejected": "x"}, "the better answer is blank"),
        ({"prompt": "Q", "chosen": "", "rejected": "x"}, "the better answer is blank"),
        ({"messages": [said("user", "  "), GOOD]}, "nothing is asked"),
    ],
)
def test_what_would_be_learned_wrongly_is_refused(tmp_path, row, why):
    assert reason(trl, tmp_path, row, {"prompt": "Q", **PAIR}).startswith(why)


def test_a_pair_beside_a_sharegpt_chat_may_hold_the_chat(tmp_path):
    turns = [{"from": "human", "value": "Name a river."}]
    row = {
        "conversations": turns,
        "chosen": [*turns, {"from": "gpt", "value": "The Elbe."}],
        "rejected": [*turns, {"from": "gpt", "value": "A hill."}],
    }
    assert prompts_and_answers(tmp_path, row, sharegpt) == ([("user", "Name a river.")], ["The Elbe.", "A hill."])


def test_a_chat_in_one_text_whose_first_turn_has_no_mark_is_cut_between_turns(tmp_path):
    asked = "Hi\n<extra_id_1>Assistant\nHello.\n<extra_id_1>User\nName a river."
    row = {"prompt": asked, "response_1": "The Elbe.", "response_2": "A hill.", "preference_strength": -2}
    prompt, answers = prompts_and_answers(tmp_path, row)
    assert prompt == [("user", "Hi"), ("assistant", "Hello."), ("user", "Name a river.")]
    assert answers == ["The Elbe.", "A hill."]
    system = f"<extra_id_0>System\nBe brief.\n<extra_id_1>User\n{asked}\n<extra_id_1>Assistant"
    prompt, _ = prompts_and_answers(tmp_path, {**row, "prompt": system})
    assert prompt[:2] == [("system", "Be brief."), ("user", "Hi")]


@pytest.mark.parametrize("said_so", ['"Yes."', '["Elbe", "Rhine"]', '{"team": "cards"}', "[[1], [2]]", "7"])
def test_an_answer_in_a_table_that_is_json_stays_the_text_that_it_is(tmp_path, said_so: str):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["question", "chosen", "rejected", "system"], [said_so, said_so, "No.", ""]])
    worse, better = taken(trl, path)
    assert (better.response, worse.response) == (said_so, "No.")
    assert [message["content"] for message in better.prompt] == [said_so]


def test_a_chat_in_a_table_is_read_as_its_messages(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["prompt", "completion"], [json.dumps([*EARLIER, ASKED]), json.dumps([GOOD])]])
    [answer] = taken(trl, path)
    assert (len(answer.prompt), answer.response) == (3, "The Elbe.")
