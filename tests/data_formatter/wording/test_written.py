import json

import pytest

from rl.base.errors import UsageError
from rl.base.records import WidgetChoice
from rl.data_formatter.wording.contract import Ask, Picked
from rl.data_formatter.wording.written import WrittenAnswers, WrittenPrompts

ENTITIES = {"devices": ["Pump 4", "Pump 5"]}
INTENT = {"type": "query", "domains": ["energy"], "entities": ENTITIES, "primary_characteristic": "x"}
WIDGET = WidgetChoice("kpi", "live", "hero", 'What is "load" {{size}}?', INTENT)
DATA = {"demoData": {"label": "Load", "unit": "kW", "v": 1}}
ASK = Ask(WIDGET, ["trend", "kpi"], {"live": "each second", "daily": ""}, [DATA])


def prompt(text: str) -> WrittenPrompts:
    widgets, fixture = ({"role": "user", "content": content} for content in (text, "{{fixtures}}"))
    return WrittenPrompts(widgets=(widgets,), fixture=(fixture,))


def test_blanks_are_filled_with_what_is_asked_and_nothing_that_is_filled_in_is_read_again():
    text = "{{question}}|{{ intent }}|{{domains}}|{{entities}}|{{primary}}|{{secondary}}|{{scenarios}}|{{data}}"
    (message,) = prompt(text).ask_for_widgets(ASK)
    expected = 'What is "load" {{size}}?|query|energy|devices: Pump 4, Pump 5|x||kpi, trend|Load (kW), v'
    assert message == {"role": "user", "content": expected}
    assert prompt("x").ask_for_fixture(ASK)[0]["content"] == "daily, live"


def test_an_answer_can_be_json():
    answers = WrittenAnswers(
        widget='{"scenario": {{scenario:json}}, "size": "{{size}}", "rank": {{number}}}',
        widgets='{"heading": {{question:json}}, "widgets": [{{widgets}}]}',
    )
    text = answers.write_widgets([Picked("kpi", "hero", WIDGET), Picked("trend", "compact", WIDGET)], ASK)
    assert json.loads(text) == {
        "heading": WIDGET.question,
        "widgets": [
            {"scenario": "kpi", "size": "hero", "rank": 0},
            {"scenario": "trend", "size": "compact", "rank": 1},
        ],
    }
    assert answers.write_fixture("live", ASK) == "live"


def test_braces_that_are_no_blank_stay():
    (message,) = prompt('{"a": {"b": "{{question}}"}}').ask_for_widgets(ASK)
    assert message["content"].startswith('{"a": {"b": "What')


def test_an_unknown_blank_is_refused_with_the_nearest_one():
    with pytest.raises(UsageError, match=r"unknown blank 'quesion' \(did you mean question\?\)"):
        prompt("{{quesion}}")


@pytest.mark.parametrize("name", ["widget", "widgets", "fixture"])
def test_an_answer_that_does_not_say_what_was_chosen_is_refused(name: str):
    with pytest.raises(UsageError, match=f"answer.{name} must hold"):
        WrittenAnswers(**{name: "always this"})


def test_a_part_that_is_missing_is_missed_when_it_is_needed():
    with pytest.raises(UsageError, match="has no fixture"):
        WrittenPrompts(widgets=({"role": "user", "content": "x"},)).ask_for_fixture(ASK)
