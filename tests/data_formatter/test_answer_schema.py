"""Learns a schema from accepted answers."""

from typing import Any

from rl.data_formatter.answer_schema import in_order, learn_schema

TEAMS = ("cards", "cash", "identity")


def answer(number: int, **fields: Any) -> dict[str, Any]:
    said = f"The customer {number} lost something."
    return {"team": TEAMS[number % 3], "urgent": number % 2 == 0, "summary": said, **fields}


def test_fields_have_types_and_only_those_with_few_values_again_and_again_are_enumerations():
    schema = learn_schema([answer(number) for number in range(30)])
    assert schema == {
        "type": "object",
        "properties": {
            "team": {"enum": list(TEAMS)},
            "urgent": {"type": "boolean"},
            "summary": {"type": "string", "maxLength": 4 * len("The customer 29 lost something.")},
        },
        "required": ["team", "urgent", "summary"],
        "additionalProperties": False,
    }
    assert list(schema["properties"]) == ["team", "urgent", "summary"]


def test_few_rows_make_no_enumeration_and_one_value_that_was_given_once_may_be_a_slip():
    few = learn_schema([{"team": TEAMS[number % 3], "note": "x"} for number in range(19)])
    assert few == {"type": "object"}
    slip = learn_schema([{"team": TEAMS[number % 3] if number else "odd"} for number in range(30)])
    assert set(slip["properties"]["team"]["enum"]) == {*TEAMS, "odd"}
    many = learn_schema([{"team": TEAMS[number % 3] if number > 2 else f"odd {number}"} for number in range(30)])
    assert many["properties"]["team"] == {"type": "string", "maxLength": 64}


def test_a_field_that_some_answers_lack_is_not_required_and_null_is_a_type():
    rows = [answer(number, **({"place": None if number % 2 else 3} if number % 5 else {})) for number in range(40)]
    schema = learn_schema(rows)
    assert "place" not in schema["required"]
    assert schema["properties"]["place"] == {"anyOf": [{"type": "null"}, {"type": "integer"}]}


def test_numbers_whole_or_not_are_numbers():
    schema = learn_schema([{"cost": number if number % 2 else number / 2} for number in range(20)])
    assert schema["properties"]["cost"] == {"type": "number"}


def test_lists_and_objects_in_it_are_read_too_and_lists_end():
    rows = [
        {"items": [{"name": f"Thing {number}", "count": 1}] * (number % 4), "who": {"age": 5}} for number in range(40)
    ]
    properties = learn_schema(rows)["properties"]
    assert properties["items"]["maxItems"] == 12
    assert properties["items"]["items"]["properties"]["count"] == {"type": "integer"}
    assert properties["who"]["required"] == ["age"]


def test_an_object_whose_names_are_always_new_stays_open():
    assert learn_schema([{"counts": {f"word{number}": 1}} for number in range(40)])["properties"]["counts"] == {
        "type": "object"
    }
    assert learn_schema([{f"word{number}": 1} for number in range(40)]) == {"type": "object"}


def test_what_is_nested_without_end_ends():
    deep: Any = "leaf"
    for _ in range(50):
        deep = {"a": [deep]}
    assert learn_schema([deep] * 20)["type"] == "object"


def test_fields_by_hand_come_in_the_order_in_which_they_are_required():
    schema = {"type": "object", "properties": {"z": {}, "b": {}, "a": {}}, "required": ["a", "b"]}
    assert list(in_order(schema)["properties"]) == ["a", "b", "z"]
