import pytest

from rl.from_systems.openai_tuning.graders import GraderInvalid, validate
from tests.evaluation.judges.judging_server import write_judges
from tests.from_systems.openai_tuning.graders.graders import (
    Json,
    label_model,
    multi,
    python,
    score_model,
    similarity,
    string_check,
)


@pytest.fixture(autouse=True)
def _judges(settings, tmp_path):
    settings.JUDGES_FILE = write_judges(
        tmp_path / "judges.yaml", careful={"url": "http://127.0.0.1:1/v1", "model": "qwen"}
    )


def test_a_grader_comes_back_with_its_defaults():
    assert validate(string_check()) == string_check()
    assert validate(python("def grade(sample, item): return 1", image_tag="2025-05-08"))["image_tag"] == "2025-05-08"
    assert validate(score_model())["range"] == [0.0, 1.0]
    assert validate(score_model(sampling_params={"seed": 1, "top_p": None}))["sampling_params"] == {"seed": 1}
    assert validate(label_model())["input"] == [{"role": "developer", "content": "Is {{ sample.output_text }} kind?"}]
    assert validate(similarity("bleu", pass_threshold=0.5, reference="x"))["pass_threshold"] == 0.5


def test_a_multi_grader_holds_graders_by_name_or_as_the_clients_types_have_it_a_single_one():
    both = validate(multi("a + b", a=string_check(), b=score_model()))
    assert both["graders"]["b"]["range"] == [0.0, 1.0]
    assert validate({**multi("right"), "graders": string_check()})["graders"] == {"right": string_check()}


@pytest.mark.parametrize(
    ("grader", "param", "reason"),
    [
        ("text", "grader", "must be a mapping of keys and values"),
        ({"name": "x"}, "grader.type", "unknown value 'None'; known: string_check, text_similarity, python"),
        ({"type": ["multi"]}, "grader.type", "did you mean multi"),
        (
            string_check(operation="neq"),
            "grader.operation",
            "unknown value 'neq' (did you mean ne?); known: eq, ne, like",
        ),
        (string_check(name=""), "grader.name", "must be a text of 1 to 256 characters"),
        (string_check(reference=None), "grader.reference", "a grader of type string_check needs it"),
        (string_check(input=3), "grader.input", "must be a text of 0 to 65,536 characters"),
        (string_check(input="{{ itm.x }}"), "grader.input", "is not a variable"),
        (string_check(ignore_case=True), "grader.ignore_case", "unknown field 'ignore_case'; known: name, input"),
        (
            similarity("cosine"),
            "grader.evaluation_metric",
            "cosine needs embeddings, and is not computed here; use fuzzy_",
        ),
        (similarity("meteor"), "grader.evaluation_metric", "a dictionary of synonyms"),
        (similarity("rouge_9"), "grader.evaluation_metric", "unknown value 'rouge_9'"),
        (python("def grade(:"), "grader.source", "invalid syntax (grader, line 1)"),
        (python("#" * 262_145), "grader.source", "must be a Python program of at most 256 KiB"),
        (
            score_model(model="gpt-4o"),
            "grader.model",
            "unknown judge 'gpt-4o'; known: own, careful; the operator registers",
        ),
        (score_model(range=[1]), "grader.range", "must be a list of 2 to 2 entries"),
        (score_model(range=[5, 1]), "grader.range", "the lowest score must be below the highest, not 5 and 1"),
        (score_model(range=[0, float("inf")]), "grader.range", "must be a number"),
        (score_model(sampling_params={"n": 2}), "grader.sampling_params.n", "unknown field 'n'"),
        (score_model(sampling_params={"seed": 0.5}), "grader.sampling_params.seed", "must be a whole number"),
        (
            score_model(sampling_params={"temperature": -1}),
            "grader.sampling_params.temperature",
            "must be a number from 0 to 2",
        ),
        (score_model(input=[]), "grader.input", "must be a list of 1 to 100 entries"),
        (score_model(input=[{"role": "user"}]), "grader.input[0].content", "a message needs it"),
        (score_model(input=[{"role": "tool", "content": ""}]), "grader.input[0].role", "unknown value 'tool'"),
        (
            score_model(input=[{"role": "user", "content": {"type": "input_image", "image_url": "x"}}]),
            "grader.input[0].content",
            "models read neither images nor sounds here",
        ),
        (label_model(passing_labels=["polite"]), "grader.passing_labels", "unknown value 'polite'; known: kind, rude"),
        (label_model(labels=[1]), "grader.labels[0]", "must be a text"),
        (multi("a"), "grader.graders", "must hold 1 to 20 graders, not 0"),
        (multi("a", **{f"g{number}": string_check() for number in range(21)}), "grader.graders", "20 graders, not 21"),
        (multi("a", a=multi("b", b=string_check())), "grader.graders.a.type", "cannot be part of another"),
        (multi("a", a=string_check(operation="is")), "grader.graders.a.operation", "unknown value 'is'"),
        (multi("min", min=string_check()), "grader.graders", "'min' cannot stand in a formula"),
        (multi("b", a=string_check()), "grader.calculate_output", "unknown grader 'b'; known: a"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(grader: Json, param: str, reason: str):
    with pytest.raises(GraderInvalid) as refused:
        validate(grader)
    assert refused.value.param == param
    assert reason in str(refused.value)


def test_a_file_of_judges_that_cannot_be_read_is_told(settings, tmp_path):
    settings.JUDGES_FILE = str(tmp_path / "nowhere.yaml")
    with pytest.raises(GraderInvalid, match=r"grader\.model: .*nowhere\.yaml"):
        validate(score_model())
