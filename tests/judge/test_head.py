"""A Bradley-Terry head, from pairs, labels and scores."""

import numpy as np
import pytest

from rl.base.errors import BadFile
from rl.judge import head
from rl.judge.form import WIDTH
from rl.judge.head import Opinion, fit
from rl.judge.labels import FOLDS, fold_of
from rl.judge.raters import cross_fit

pytestmark = pytest.mark.learn

ANSWERS, COLUMNS = 240, 17


def of_one_form(seen: np.ndarray) -> np.ndarray:
    """(N, D) and the columns of the form, in which no answer differs from another."""
    return np.pad(seen, ((0, 0), (0, WIDTH))).astype(np.float32)


@pytest.fixture
def features() -> np.ndarray:
    return of_one_form(np.random.default_rng(1).normal(size=(ANSWERS, COLUMNS)))


def pairs(features: np.ndarray, worth: np.ndarray, count: int = 100) -> list[Opinion]:
    opinions = []
    for number in range(count):
        first, second = 2 * number, 2 * number + 1
        better = worth[first] > worth[second]
        opinions.append(Opinion(*((first, second) if better else (second, first)), prompt=f"q{number}"))
    return opinions


def agreement(ratings: np.ndarray, worth: np.ndarray) -> float:
    """On pairs that nobody has compared."""
    first, second = np.arange(200, 220), np.arange(220, 240)
    return float(np.mean((ratings[first] > ratings[second]) == (worth[first] > worth[second])))


def test_it_finds_what_pairs_prefer(features):
    worth = features[:, 3]
    learned = fit(features, pairs(features, worth))
    assert agreement(learned.ratings(features), worth) >= 0.9


def test_labels_scores_and_pairs_teach_it_together(features):
    worth = features[:, 3] - features[:, 5]
    scores = 1 / (1 + np.exp(-worth))
    singles = [Opinion(number, value=float(worth[number] > 0), prompt=f"q{number}") for number in range(60)]
    scored = [Opinion(number, value=float(scores[number]), prompt=f"q{number}") for number in range(60, 120)]
    compared = [opinion for opinion in pairs(features, worth) if opinion.answer >= 120]
    learned = fit(features, [*singles, *scored, *compared])
    assert agreement(learned.ratings(features), worth) >= 0.85
    good = learned.goodness(features)
    assert good[worth > 1].mean() > 0.7 > 0.3 > good[worth < -1].mean()


def test_a_label_that_most_answers_have_moves_the_constant_and_not_the_ratings(features):
    opinions = [Opinion(number, value=float(number % 10 != 0), prompt=f"q{number}") for number in range(100)]
    assert fit(features, opinions).goodness(features)[:100].mean() == pytest.approx(0.9, abs=0.05)


def test_a_form_like_none_that_was_learned_from_is_rated_like_the_most_unlike_that_was():
    rng = np.random.default_rng(3)
    seen = np.hstack([rng.normal(size=(ANSWERS, COLUMNS)), rng.normal(size=(ANSWERS, WIDTH))])
    learned = fit(seen, pairs(seen, seen[:, -1]))
    far, farther = seen[:1].copy(), seen[:1].copy()
    far[0, -1], farther[0, -1] = 5, 5000
    assert learned.ratings(far) == pytest.approx(learned.ratings(farther))
    assert learned.ratings(far) > learned.ratings(seen[:1])


def test_an_opinion_without_weight_teaches_nothing(features):
    worth = features[:, 3]
    opinions = pairs(features, worth)
    wrong = [Opinion(opinion.other, opinion.answer, weight=0.0, prompt=opinion.prompt) for opinion in opinions]
    alone, both = fit(features, opinions), fit(features, [*opinions, *wrong])
    np.testing.assert_allclose(alone.ratings(features), both.ratings(features), atol=1e-4)


def test_the_same_labels_give_the_same_head(features):
    opinions = pairs(features, features[:, 3])
    first, second = fit(features, opinions), fit(features, opinions)
    assert (first.weights == second.weights).all()


def test_more_dimensions_than_labels_are_no_obstacle():
    wide = np.random.default_rng(2).normal(size=(40, 1001))
    wide[:, 7] *= 5
    wide = of_one_form(wide)
    worth = wide[:, 7]
    learned = fit(wide, pairs(wide, worth, 20))
    assert learned.weights.shape == (1001 + WIDTH,)
    assert np.isfinite(learned.weights).all()


def test_without_opinions_there_is_nothing_to_learn(features):
    with pytest.raises(ValueError, match="no opinions"):
        fit(features, [])


def test_no_head_has_learned_from_the_prompts_that_it_judges(features):
    """Each prompt's label is the wrong way round for its own fold alone: a head that saw it would be misled."""
    worth = features[:, 3]
    honest = pairs(features, worth)
    judge = cross_fit(features, honest)
    assert judge
    assert len(judge.heads) == FOLDS
    of_fold = [opinion for opinion in honest if fold_of(opinion.prompt) == 2]
    turned = [
        Opinion(opinion.other, opinion.answer, prompt=opinion.prompt) if opinion in of_fold else opinion
        for opinion in honest
    ]
    misled = cross_fit(features, turned)
    assert misled
    np.testing.assert_array_equal(judge.heads[2].weights, misled.heads[2].weights)
    assert not np.array_equal(judge.heads[1].weights, misled.heads[1].weights)
    right = [judge.preference(features, op.answer, op.other, op.prompt) > 0.5 for op in of_fold]
    assert np.mean(right) > 0.8


def test_labels_of_one_kind_alone_make_no_judge(features):
    assert cross_fit(features, [Opinion(number, value=1.0, prompt=f"q{number}") for number in range(50)]) is None
    assert cross_fit(features, []) is None


def test_a_file_gives_back_what_was_saved(features, tmp_path):
    learned = fit(features, pairs(features, features[:, 3]))
    head.save(learned, tmp_path / "head.npz")
    np.testing.assert_array_equal(head.load(tmp_path / "head.npz").ratings(features), learned.ratings(features))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half of one"])
def test_a_broken_file_is_refused(tmp_path, content):
    (tmp_path / "head.npz").write_bytes(content)
    with pytest.raises(BadFile, match="not the weights of a judge"):
        head.load(tmp_path / "head.npz")
