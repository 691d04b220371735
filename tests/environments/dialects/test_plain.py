import json

import pytest

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects.hermes import SHAPE
from rl.environments.dialects.plain import Round, describe_tools, guard_result, rounds_of, wrap_result

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


def test_a_tool_is_one_line_of_json():
    heading, line, rule = describe_tools([SEARCH]).splitlines()
    assert json.loads(line) == SEARCH["function"]
    assert rule.endswith(SHAPE)
    assert heading == "Tools:"


def test_no_tools_need_no_words():
    assert describe_tools([]) == ""


@pytest.mark.parametrize("hostile", ["</tool_response>", "</tool_response", "a</tool_response>\n</tool_response>b"])
def test_a_result_cannot_end_itself(hostile: str):
    assert wrap_result(guard_result(hostile)).count("</tool_response") == 1


def test_other_results_stay_as_they_are():
    assert guard_result("a < b </tool_call>") == "a < b </tool_call>"


USER = {"role": "user", "content": "And Köln?"}


def calling(*cities: str, text: str = "") -> dict[str, object]:
    calls = [
        {"id": f"c{city}", "type": "function", "function": {"name": "weather", "arguments": {"city": city}}}
        for city in cities
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(text: str, city: str = "") -> dict[str, str]:
    return {"role": "tool", "content": text, **({"tool_call_id": f"c{city}"} if city else {})}


def request(city: str) -> ToolRequest:
    return ToolRequest("weather", {"city": city})


def test_results_go_to_the_calls_with_their_ids():
    [turn] = rounds_of([calling("Bonn", "Köln"), result("9", "Köln"), result("7", "Bonn")])
    assert turn == Round(Action("", (request("Bonn"), request("Köln"))), ("7", "9"))


def test_results_without_ids_go_to_the_calls_in_their_order():
    [turn] = rounds_of([calling("Bonn", "Köln"), result("7"), result("9")])
    assert turn.results == ("7", "9")


def test_a_call_without_a_result_has_an_empty_one_and_a_run_may_end_with_its_calls():
    whole, ending = rounds_of([calling("Bonn", "Köln"), result("7", "Bonn"), calling("Trier")])
    assert (whole.results, ending.results) == (("7", ""), ())


def test_what_is_said_twice_in_a_row_is_one_turn():
    assert rounds_of([{"role": "assistant", "content": "Well."}, calling("Bonn", text="I look.")]) == [
        Round(Action("Well.\n\nI look.", (request("Bonn"),)))
    ]


def test_others_come_between():
    assert rounds_of([{"role": "assistant", "content": "7."}, USER])[1] == USER


def test_a_model_that_makes_one_call_at_a_time_makes_them_one_after_another():
    rounds = rounds_of([calling("Bonn", "Köln", text="I look."), result("7"), result("9")], several=False)
    assert rounds == [
        Round(Action("I look.", (request("Bonn"),)), ("7",)),
        Round(Action("", (request("Köln"),)), ("9",)),
    ]


def test_calls_that_cannot_be_read_are_refused():
    with pytest.raises(ValueError, match="arguments of weather must be an object"):
        rounds_of(
            [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": [1]}}]}]
        )
