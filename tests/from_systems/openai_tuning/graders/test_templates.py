import pytest

from rl.from_systems.openai_tuning.graders import templates
from rl.from_systems.openai_tuning.graders.failures import GradingFailed

ITEM = {"answer": "Bern", "of": {"capital-city": ["Bern", {"people": 134_000}]}, "nothing": None}
SAMPLE = '{"city": "Bern", "sure": true, "parts": [1, 2]}'


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("It is {{item.answer}}.", "It is Bern."),
        ("{{ item.of.capital-city[1].people }} {{ item.of.capital-city.0 }}", "134000 Bern"),
        ("{{ item.of }}", '{"capital-city": ["Bern", {"people": 134000}]}'),
        ("{{ item.nothing }}", "null"),
        ("{{ sample.output_json.city }}: {{ sample.output_json.sure }}", "Bern: true"),
        ("{{ sample.output_text }}", SAMPLE),
        ("{{ sample.output_tools }}", "[]"),
        ("{{ sample.choices[0].message.content }}", SAMPLE),
        ("{ item.answer } and { {item.answer} }", "{ item.answer } and { {item.answer} }"),
    ],
)
def test_variables_are_filled_in(text: str, filled: str):
    templates.check(text)
    assert templates.fill(text, templates.variables_of(ITEM, SAMPLE)) == filled


@pytest.mark.parametrize(
    ("text", "sample", "flag"),
    [
        ("{{ item.city }}", "", "invalid_variable_error"),
        ("{{ item.answer.letters }}", "", "invalid_variable_error"),
        ("{{ item.of.capital-city[7] }}", "", "invalid_variable_error"),
        ("{{ sample.output_tools[0].function.name }}", "", "invalid_variable_error"),
        ("{{ sample.output_json.country }}", SAMPLE, "invalid_variable_error"),
        ("{{ sample.output_json.city }}", "Bern", "sample_parse_error"),
        ("{{ sample.output_json }}", "[" * 100_000, "sample_parse_error"),
        ("{{ sample.output_text }}" * 9, "x" * 40_000, "other_error"),
    ],
)
def test_what_cannot_be_filled_in_is_flagged(text: str, sample: str, flag: str):
    with pytest.raises(GradingFailed) as failed:
        templates.fill(text, templates.variables_of(ITEM, sample))
    assert failed.value.flag == flag


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ itm.answer }}", "is not a variable; write {{ item.NAME }} or {{ sample.NAME }}"),
        ("{{ item }}", "is not a variable"),
        ("{{ item.answer | upper }}", "is not a variable"),
        ("{{ sample.output }}", "the sample, which has output_text, output_json, output_tools, choices"),
    ],
)
def test_what_can_never_be_filled_in_is_refused_before(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        templates.check(text)


def test_a_text_full_of_brackets_takes_no_time():
    templates.check("{" * 65_536)
    assert templates.fill("{{" * 30_000, {}) == "{{" * 30_000
