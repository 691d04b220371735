"""Several answers in one row, with the columns of public datasets; the words are made up."""

from typing import Any

import pytest

from rl.collect.importers import trl
from tests.collect.importers.reading import lines, reason, said, taken

QUESTION = "Name a river."
GOOD, BAD = "The Elbe.", "A hill."
PAIR = {"prompt": QUESTION, "chosen": GOOD, "rejected": BAD}
EARLIER = [said("user", "Hi"), said("assistant", "Hello.")]


def chat(answer: str) -> list[dict[str, Any]]:
    return [said("user", QUESTION), said("assistant", answer)]


DUELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SHP": (
        {"history": QUESTION, "human_ref_A": GOOD, "human_ref_B": BAD, "labels": 1, "score_A": 9},
        {"history": QUESTION, "human_ref_A": BAD, "human_ref_B": GOOD, "labels": 0, "score_A": 9},
    ),
    "PKU-SafeRLHF": (
        {"prompt": QUESTION, "response_0": GOOD, "response_1": BAD, "better_response_id": 0, "safer_response_id": 1},
        {"prompt": QUESTION, "response_0": BAD, "response_1": GOOD, "better_response_id": 1, "safer_response_id": 0},
    ),
    "HelpSteer3": (
        {"context": [said("user", QUESTION)], "response1": GOOD, "response2": BAD, "overall_preference": -3},
        {"context": [said("user", QUESTION)], "response1": BAD, "response2": GOOD, "overall_preference": 1},
    ),
    "HelpSteer2": (
        {"prompt": QUESTION, "response_1": GOOD, "response_2": BAD, "preference_strength": -1},
        {"prompt": QUESTION, "response_1": BAD, "response_2": GOOD, "preference_strength": 2},
    ),
    "AlpacaFarm": (
        {"instruction": QUESTION, "input": "", "output_1": GOOD, "output_2": BAD, "preference": 1},
        {"instruction": QUESTION, "input": "", "output_1": BAD, "output_2": GOOD, "preference": 2.0},
    ),
    "Chatbot Arena": (
        {"conversation_a": chat(GOOD), "conversation_b": chat(BAD), "winner": "model_a", "model_a": "x"},
        {"conversation_a": chat(BAD), "conversation_b": chat(GOOD), "winner": "Model_B", "model_a": "x"},
    ),
    "LMSYS": (
        {"prompt": [QUESTION], "response_a": [GOOD], "response_b": [BAD], "winner_model_a": 1, "winner_model_b": 0},
        {
            "prompt": f'["{QUESTION}"]',
            "response_a": f'["{BAD}"]',
            "response_b": f'["{GOOD}"]',
            "winner_model_a": "0",
            "winner_model_b": "1",
            "winner_tie": "0",
        },
    ),
}


@pytest.mark.parametrize("name", DUELS)
@pytest.mark.parametrize("side", [0, 1])
def test_the_verdict_says_which_of_two_answers_is_better(tmp_path, name: str, side: int):
    worse, better = taken(trl, lines(tmp_path, DUELS[name][side]))
    assert [message["content"] for message in better.prompt] == [QUESTION]
    assert worse.prompt == better.prompt
    assert (better.response, worse.response) == (GOOD, BAD)
    assert (better.feedback[0].choice, better.feedback[0].other_external_id) == ("left", worse.external_id)
    assert not worse.feedback


@pytest.mark.parametrize(
    ("row", "change", "choice"),
    [
        ("HelpSteer3", {"overall_preference": 0}, "tie"),
        ("AlpacaFarm", {"preference": 1.5}, "tie"),
        ("Chatbot Arena", {"winner": "tie"}, "tie"),
        ("Chatbot Arena", {"winner": "tie (bothbad)"}, "both_bad"),
        ("LMSYS", {"winner_model_a": "0", "winner_tie": 1.0}, "tie"),
    ],
)
def test_a_draw_is_no_preference(tmp_path, row: str, change: dict[str, Any], choice: str):
    *_, last = taken(trl, lines(tmp_path, {**DUELS[row][0], **change}))
    assert last.feedback[0].choice == choice


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": QUESTION, "response_a": GOOD, "response_b": BAD}, "no winner that says which is better"),
        ({**DUELS["SHP"][0], "labels": 2}, "labels must be one of 1, 0, not 2"),
        ({**DUELS["SHP"][0], "labels": None}, "no labels that says which is better"),
        ({**DUELS["HelpSteer3"][0], "overall_preference": "left"}, "overall_preference must be a number"),
        ({**DUELS["Chatbot Arena"][0], "winner": "nobody"}, "winner must be one of"),
        ({**DUELS["PKU-SafeRLHF"][0], "response_0": BAD}, "the two answers are the same"),
        ({**DUELS["Chatbot Arena"][0], "conversation_b": [*EARLIER, *chat(BAD)]}, "belong to different prompts"),
        ({**DUELS["LMSYS"][0], "winner_model_b": "1"}, "not one is 1, but 2"),
        ({**DUELS["LMSYS"][0], "winner_model_a": 0}, "not one is 1, but 0"),
        ({**DUELS["LMSYS"][0], "response_b": [BAD, BAD]}, "response_b must be a list of as many answers"),
        (
            {**DUELS["LMSYS"][0], "prompt": ["Hi", QUESTION], "response_a": ["Hm", GOOD], "response_b": ["Oh", BAD]},
            "belong to different prompts",
        ),
    ],
)
def test_answers_of_which_nobody_knows_the_better_one_are_refused(tmp_path, row: dict[str, Any], why: str):
    assert why in reason(trl, tmp_path, row, PAIR)


NECTAR = {"prompt": f"\n\nHuman: {QUESTION}\n\nAssistant: ", "turns": 1}
RANKED = [
    {**NECTAR, "answers": [{"answer": BAD, "rank": 3.0}, {"answer": GOOD, "rank": 1.0}, {"answer": "?", "rank": 2}]},
    {
        "instruction": QUESTION,
        "completions": [
            {"response": BAD, "overall_score": 1.5, "annotations": {}},
            {"response": GOOD, "overall_score": 9},
            {"response": "?", "overall_score": 5},
        ],
    },
]


@pytest.mark.parametrize("row", RANKED)
def test_the_best_of_ranked_answers_is_better_than_each_of_the_others(tmp_path, row: dict[str, Any]):
    *others, best = taken(trl, lines(tmp_path, row))
    assert (best.response, {other.response for other in others}) == (GOOD, {BAD, "?"})
    assert [message["content"] for message in best.prompt] == [QUESTION]
    assert {pick.other_external_id for pick in best.feedback} == {other.external_id for other in others}
    assert all(pick.choice == "left" for pick in best.feedback)
    assert not any(other.feedback for other in others)


def test_answers_of_the_same_rank_are_not_compared(tmp_path):
    answers = [{"answer": GOOD, "rank": 1}, {"answer": "The Rhine.", "rank": 1}, {"answer": BAD, "rank": 2}]
    *others, best = taken(trl, lines(tmp_path, {**NECTAR, "answers": answers}))
    assert best.response == GOOD
    assert [pick.other_external_id for pick in best.feedback] == [
        other.external_id for other in others if other.response == BAD
    ]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([{"answer": GOOD}, {"answer": BAD}], "answers[0] has neither a rank nor a score"),
        ([{"answer": GOOD, "rank": 1}, {"rank": 2}], "answers[1] has no text"),
        ([{"answer": GOOD, "rank": 1}, "A hill."], "answers[1] has no text"),
        ([{"answer": " ", "rank": 1}, {"answer": BAD, "rank": 2}], "the best answer is blank"),
        ([{"answer": GOOD, "rank": "first"}], "rank must be a number"),
    ],
)
def test_ranked_answers_that_cannot_be_told_apart_are_refused(tmp_path, answers: list[Any], why: str):
    assert why in reason(trl, tmp_path, {**NECTAR, "answers": answers}, PAIR)


def test_a_chat_beside_two_single_messages_is_what_they_answer(tmp_path):
    row = {"messages": [*EARLIER, said("user", QUESTION)]}
    row |= {"chosen": said("assistant", GOOD), "rejected": said("assistant", BAD)}
    worse, better = taken(trl, lines(tmp_path, row))
    assert [message["content"] for message in better.prompt] == ["Hi", "Hello.", QUESTION]
    assert (better.response, worse.response) == (GOOD, BAD)


def test_a_chat_beside_whole_chats_is_said_once(tmp_path):
    row = {"messages": chat(GOOD), "chosen": chat(GOOD), "rejected": chat(BAD)}
    worse, better = taken(trl, lines(tmp_path, row))
    assert [message["content"] for message in better.prompt] == [QUESTION]
    assert (better.response, worse.response) == (GOOD, BAD)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (
            {"conversations": [], "chosen": {"from": "gpt", "value": GOOD}, "rejected": {"from": "gpt", "value": BAD}},
            "sharegpt",
        ),
        ({"conversation": chat(GOOD)}, "sharegpt"),
        ({"message_tree_id": "1", "prompt": {"text": QUESTION}}, "open_assistant"),
        ({"message_id": "1", "text": QUESTION, "role": "prompter"}, "open_assistant"),
        ({"input": {}, "preferred_output": chat(GOOD)[1:]}, "openai_preference"),
    ],
)
def test_a_row_of_another_format_is_refused_with_its_name(tmp_path, row: dict[str, Any], name: str):
    assert f"--format {name}" in reason(trl, tmp_path, row, PAIR)
