"""The figures are those of sacrebleu 2.6.0 (sentence_bleu), nltk 3.10.4 (sentence_gleu) and rouge-score 0.1.2 (F1, no
stemmer): 2,000 random pairs of sentences differed by less than 1e-12."""

import pytest

from rl.from_systems.openai_tuning.graders.similarity import METRICS

TEXT, REFERENCE = "The cat sat on the mat today.", "The cat sat on a mat, today."


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("bleu", 0.3770794596593207),
        ("gleu", 0.4666666666666667),
        ("rouge_1", 0.8571428571428571),
        ("rouge_2", 0.6666666666666666),
        ("rouge_3", 0.4),
        ("rouge_4", 0.25),
        ("rouge_5", 0.0),
        ("rouge_l", 0.8571428571428571),
        ("fuzzy_match", 0.9122807017543859),
    ],
)
def test_a_metric_has_the_figure_of_the_package_that_is_known_for_it(metric: str, value: float):
    assert METRICS[metric](TEXT, REFERENCE) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_text_is_wholly_like_itself_and_nothing_like_nothing(metric: str):
    assert METRICS[metric](TEXT, TEXT) == pytest.approx(1)
    assert METRICS[metric]("", REFERENCE) == METRICS[metric](REFERENCE, "") == 0


def test_letters_are_compared_as_they_stand():
    assert METRICS["fuzzy_match"]("Bern", "bern") == 0.75
    assert METRICS["fuzzy_match"]("+", "-") == 0


def test_words_of_other_scripts_are_words():
    assert METRICS["rouge_1"]("Привет, мир", "привет мир") == 1
