"""Few answers that are right or wrong are all trained on, and each tested prompt is answered by who has not learned it."""

import pytest

from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.accepted_answers import folds_of, kind_of
from rl.dataset_builder.accepted_answers import tested_of as keys_tested
from rl.dataset_builder.frozen.folding import FOLDS, LEAST_TESTED, count_folds, learned_keys, most_tested
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TrainingSet
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, read_rows

pytestmark = pytest.mark.django_db
FIFTH = DataOptions(min_samples=1, val_split=0.2)
CLASSES = ("cash", "cards", "transfers")


def like_classes(agent: Agent, count: int, start: int = 0, **fields: object) -> None:
    for number in range(start, start + count):
        rate(make_trace(agent, f"Question {number}?", CLASSES[number % 3], **fields), 1)


def like_sentences(agent: Agent, count: int) -> None:
    for number in range(count):
        rate(make_trace(agent, f"Question {number}?", f"Your parcel {number} is in van {number}."), 1)


def frozen_from(agent: Agent, options: DataOptions = FIFTH, *, method: str = "sft", fits: bool = True) -> TrainingSet:
    return freeze(agent, options, method=method, cross_fits=fits)


def put_in_use(agent: Agent, training_set: TrainingSet) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=0)
    TrainingRun.objects.create(
        agent=agent,
        method=training_set.method,
        config={},
        version=version,
        training_set=training_set,
        state=TrainingRun.State.SUCCEEDED,
    )
    Deployment.promote(version)
    return version


@pytest.mark.parametrize("method", ["sft", "mpo"])
def test_of_a_few_classes_nothing_is_held_out_and_the_prompts_are_tested_in_three_parts(agent, data_dir, method: str):
    like_classes(agent, 25)
    rate(make_trace(agent, "Disliked?", "I do not know."), 0)
    frozen = frozen_from(agent, method=method)
    assert (frozen.train_rows, frozen.heldout_rows, frozen.val_split) == (26, 0, 0.0)
    assert (folds_of(frozen), kind_of(frozen).kind) == (FOLDS, "closed") == (3, "closed")
    rows = [row for row in read_rows(frozen, "train") if row["chosen"]]
    assert len(rows) == 25
    assert read_rows(frozen, "heldout") == []
    assert sorted(keys_tested(frozen)) == sorted(row["prompt_key"] for row in rows)


def test_of_free_answers_a_fifth_is_held_out_as_ever(agent, data_dir):
    like_sentences(agent, 25)
    usual, cross_fitted = frozen_from(agent, fits=False), frozen_from(agent)
    assert usual == cross_fitted
    assert (folds_of(usual), keys_tested(usual), kind_of(usual).kind, usual.val_split) == (0, (), "free", 0.2)
    assert 0 < usual.heldout_rows < usual.train_rows


def test_a_run_that_does_not_cross_fit_has_the_kind_and_a_fifth_held_out(agent, data_dir):
    like_classes(agent, 25)
    frozen = frozen_from(agent, fits=False)
    assert (folds_of(frozen), kind_of(frozen).kind) == (0, "closed")
    assert frozen.heldout_rows > 0


def test_whoever_holds_nothing_out_is_not_measured(agent, data_dir):
    like_classes(agent, 25)
    frozen = frozen_from(agent, DataOptions(min_samples=1, val_split=0.0))
    assert (folds_of(frozen), frozen.train_rows) == (0, 25)


def test_what_the_settings_say_of_the_answers_decides(agent, data_dir):
    Agent.objects.filter(pk=agent.pk).update(answer_kind="free")
    agent.refresh_from_db()
    like_classes(agent, 25)
    frozen = frozen_from(agent)
    assert (folds_of(frozen), kind_of(frozen).reason) == (0, "as the agent's settings say")
    assert frozen.heldout_rows > 0


def test_what_is_marked_for_testing_stays_held_out(agent, data_dir):
    like_classes(agent, 20)
    like_classes(agent, 5, start=20, details={"split": "heldout"})
    frozen = frozen_from(agent)
    assert (frozen.train_rows, frozen.heldout_rows, folds_of(frozen)) == (20, 5, 3)
    asked = {row["prompt"][0]["content"] for row in read_rows(frozen, "heldout")}
    assert asked == {f"Question {number}?" for number in range(20, 25)}


def test_other_rows_of_the_same_bytes_are_another_set(agent, data_dir):
    like_classes(agent, 25)
    folded, usual = frozen_from(agent), frozen_from(agent, fits=False)
    assert folded.content_hash != usual.content_hash
    assert frozen_from(agent) == folded


def test_a_champion_that_has_learned_all_leaves_no_prompt_to_test_on(agent, data_dir):
    like_classes(agent, 25)
    first = frozen_from(agent)
    champion = put_in_use(agent, first)
    keys = {row["split_key"] for row in read_rows(first, "train")}
    assert learned_keys(champion, {*keys, "another"}) == keys
    again = frozen_from(agent)
    assert (again.train_rows, again.heldout_rows, keys_tested(again)) == (25, 0, ())


def test_only_what_is_new_to_the_champion_is_tested(agent, data_dir):
    like_classes(agent, 25)
    put_in_use(agent, frozen_from(agent))
    like_classes(agent, 6, start=25)
    frozen = frozen_from(agent)
    asked = {row["prompt_key"]: row["prompt"][0]["content"] for row in read_rows(frozen, "train")}
    assert {asked[key] for key in keys_tested(frozen)} == {f"Question {number}?" for number in range(25, 31)}
    assert folds_of(frozen) == 1, "one adapter leaves out these few"


def test_of_many_prompts_a_part_is_tested(agent, data_dir):
    like_classes(agent, LEAST_TESTED + 12)
    frozen = frozen_from(agent)
    assert (len(keys_tested(frozen)), folds_of(frozen), frozen.heldout_rows) == (LEAST_TESTED, 3, 0)


def test_of_answers_that_take_long_to_learn_one_more_training_is_enough():
    asked = {prompts: most_tested(prompts, 0.2, "structured") for prompts in (40, 63, 64, 80, 120, 1000)}
    assert asked == {40: 40, 63: 48, 64: 32, 80: 40, 120: 48, 1000: 200}
    assert [count_folds(prompts, tested) for prompts, tested in asked.items()] == [3, 3, 1, 1, 1, 1]
    assert most_tested(80, 0.2, "closed") == 48
    assert [most_tested(80, share, "closed") for share in (0.05, 0.1, 0.5, 0.9)] == [12, 24, 48, 72]


def test_nobody_has_learned_from_a_set_whose_files_are_gone(agent, data_dir):
    like_classes(agent, 25)
    frozen = frozen_from(agent)
    version = put_in_use(agent, frozen)
    (frozen.directory / "train.jsonl").unlink()
    assert learned_keys(version, {"key"}) == learned_keys(None, {"key"}) == set()
