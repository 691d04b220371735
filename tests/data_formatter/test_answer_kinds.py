import json

import pytest

from rl.data_formatter.answer_kinds import FEWEST, FREE, AnswerKind, find_kind, listed_answers, normalise, whole_object

CLASSES = ["Cash", "cash.", "Transfers", "cards", "CASH", "Cards", "transfers", "cash", "cards", "cash"]
SENTENCES = [f"Your parcel number {number} is on its way." for number in range(20)]


def forms(count: int = 10, **more: object) -> list[str]:
    return [json.dumps({"lane": "Home", "number": number, **more}) for number in range(count)]


def test_few_answers_that_are_said_again_and_again_are_a_closed_set():
    kind = find_kind(CLASSES)
    assert (kind.kind, kind.values) == ("closed", ("cash", "cards", "transfers"))
    assert kind.reason == "10 accepted answers are 3 distinct ones"
    assert kind.has_right_answers


def test_answers_that_are_mostly_new_are_free():
    kind = find_kind(SENTENCES)
    assert (kind.kind, kind.has_right_answers) == ("free", False)
    assert kind.reason == "20 of 20 accepted answers are distinct"
    assert kind.is_of_kind("anything")


def test_up_to_three_in_ten_may_have_been_said_once():
    repeated = ["yes"] * 4 + ["no"] * 3
    assert find_kind([*repeated, "a", "b", "c"]).kind == "closed"
    assert find_kind([*repeated, "a", "b", "c", "d"]).kind == "free"


def test_a_long_text_that_is_said_twice_is_no_set():
    assert find_kind(["x" * 81] * 10).kind == "free"
    assert find_kind(["x" * 80] * 10).kind == "closed"


def test_objects_with_fields_in_common_are_a_structure():
    answers = [*forms(9, note="new"), json.dumps({"lane": "Work", "number": 1})]
    kind = find_kind(answers)
    assert (kind.kind, kind.fields) == ("structured", ("lane", "number", "note"))
    assert kind.reason == "10 of 10 accepted answers are JSON objects with lane, number, note"


def test_one_text_in_ten_may_stand_among_objects_and_no_more():
    assert find_kind([*forms(9), "no idea"]).kind == "structured"
    assert find_kind([*forms(8), "no idea", "what?"]).kind == "free"


def test_objects_without_a_field_in_common_are_free():
    kind = find_kind(json.dumps({f"field{number}": 1}) for number in range(10))
    assert (kind.kind, kind.reason) == ("free", "10 of 10 accepted answers are JSON, without a field in common")


def test_objects_of_two_shapes_are_structured_and_right_by_the_fields_of_their_own():
    widgets = [json.dumps({"heading": f"h{number}", "widgets": [number]}) for number in range(10)]
    fixtures = [json.dumps({"fixtures": [number]}) for number in range(10)]
    kind = find_kind([*widgets, *fixtures])
    assert (kind.kind, kind.fields) == ("structured", ())
    assert kind.reason == "20 of 20 accepted answers are JSON objects of 2 shapes"
    assert kind.is_right('{"fixtures": [3]}', [fixtures[3]])
    assert not kind.is_right(widgets[3], [fixtures[3]])
    assert kind.compare(widgets[3], widgets[4]) == {"heading": False, "widgets": False}


@pytest.mark.parametrize(("count", "kind"), [(FEWEST - 1, "free"), (FEWEST, "closed")])
def test_a_few_answers_tell_nothing(count: int, kind: str):
    assert find_kind(["yes"] * count).kind == kind


def test_one_answer_is_told_in_the_singular():
    assert find_kind(["yes"]).reason == "1 accepted answer, and 8 tell of what kind they are"


@pytest.mark.parametrize("declared", ["closed", "structured", "free"])
def test_what_somebody_said_is_not_found_out(declared: str):
    for answers in (["yes"], SENTENCES, forms(), []):
        kind = find_kind(answers, declared)
        assert (kind.kind, kind.reason) == (declared, "as the agent's settings say")


def test_of_a_declared_set_the_accepted_ones_are_the_values():
    assert find_kind(["Yes.", "no", "yes"], "closed").values == ("yes", "no")


@pytest.mark.parametrize("answer", ["Cash", " cash ", "cash.", '"Cash"', "`cash`", "**Cash**.", '"Cash."', "CASH"])
def test_case_white_space_full_stop_and_quotation_marks_do_not_count(answer: str):
    assert normalise(answer) == "cash"
    assert find_kind(CLASSES).is_right(answer, ["cash"])


def test_other_words_are_wrong_and_may_be_off_the_set():
    kind = find_kind(CLASSES)
    assert not kind.is_right("cards", ["cash"])
    assert kind.is_of_kind("cards")
    assert not kind.is_of_kind("It is cash, I think")
    assert kind.is_right("cards", ["cash", "cards"]), "either of the accepted ones is right"


def test_an_object_is_right_when_every_field_is():
    kind, wanted = find_kind(forms()), '{"lane": "Home", "number": 3, "tags": ["a", "b"]}'
    assert kind.is_right('```json\n{"number": 3, "tags": ["A", "b"], "lane": " home "}\n```', [wanted])
    assert not kind.is_right('{"lane": "Home", "number": 3, "tags": ["b", "a"]}', [wanted]), "lists have an order"
    assert kind.compare('{"lane": "Work", "number": 3}', wanted) == {"lane": False, "number": True, "tags": False}
    assert kind.compare("no object", wanted) == {"lane": False, "number": False, "tags": False}


def test_an_object_is_of_the_structure_when_it_has_its_fields():
    kind = find_kind(forms())
    assert kind.is_of_kind('{"lane": "", "number": null, "more": 1}')
    assert not kind.is_of_kind('{"lane": "Home"}')
    assert not kind.is_of_kind('Sure: {"lane": "Home", "number": 3}')


def test_where_nothing_is_to_be_filled_in_only_an_empty_object_is_right():
    kind = find_kind(forms())
    assert kind.is_right("{ }", ["{}"])
    assert not kind.is_right("no idea", ["{}"])
    assert not kind.is_right('{"lane": "Home"}', ["{}"])


def test_an_accepted_text_among_objects_is_compared_as_a_text():
    assert find_kind(forms()).is_right("No idea.", ["no idea"])


@pytest.mark.parametrize("text", ["", "[1]", "{", "{'a': 1}", "3", '{"a": 1} and more', "{" * 100_000])
def test_what_is_not_a_whole_object_is_none(text: str):
    assert whole_object(text) is None


def test_a_kind_comes_back_from_what_is_stored():
    for kind in (FREE, find_kind(CLASSES), find_kind(forms())):
        assert AnswerKind.from_dict(json.loads(json.dumps(kind.as_dict()))) == kind


TEAMS = "Which team should answer this message: cards, transfers, cash or identity? Answer with its name.\n\nMessage: "


@pytest.mark.parametrize(
    ("prompt", "accepted", "listed"),
    [
        (TEAMS + "I lost it", "Cash.", ("cards", "transfers", "cash", "identity")),
        ("Is this positive, negative or neutral?\n\nI like cats", "neutral", ("positive", "negative", "neutral")),
        ("Classify.\n- spam\n- not spam\n- unsure\n\nText: spam, spam, eggs", "unsure", ("spam", "not spam", "unsure")),
        ("Reply with one of [billing, sales, support].\nred, green and blue", "sales", ("billing", "sales", "support")),
        ("Choose: refund_request | cancel | other", "other", ("refund_request", "cancel", "other")),
        ("Labels: A/B/C\nx", "B", ("A", "B", "C")),
        ("Antworte nur mit einem von: hoch, mittel oder niedrig.", "mittel", ("hoch", "mittel", "niedrig")),
    ],
)
def test_a_list_is_found_by_one_of_its_answers(prompt: str, accepted: str, listed: tuple[str, ...]):
    assert listed_answers(prompt, accepted) == listed


@pytest.mark.parametrize("filling", [" ", "\t", "\n", "a ", "a,", "- a\n", " or", "?"])
def test_a_long_prompt_is_read_in_one_go(filling: str):
    """What is slow hangs until the test runner ends it."""
    long = filling * 500_000
    assert listed_answers(f"{TEAMS}\n\n{long}", "cash") == ("cards", "transfers", "cash", "identity")
    assert listed_answers(long, "cash") == ()


@pytest.mark.parametrize(
    ("prompt", "accepted"),
    [
        ("What is the capital of France?", "Paris"),
        (TEAMS, "Please ask the team for cards."),
        (
            "Tom, who is tall and lives in a house by the sea, met Ann, and they had tea and a long talk about it.",
            "Ann",
        ),
        ("cards, cash", "cash"),
        ("", "cash"),
    ],
)
def test_what_is_no_list_or_does_not_have_the_answer_is_none(prompt: str, accepted: str):
    assert listed_answers(prompt, accepted) == ()
