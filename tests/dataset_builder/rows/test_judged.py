"""Training sets for KTO, GRPO and reward models, frozen from the database."""

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.collect.feedback.write import compare, correct, retract
from rl.dataset_builder import DataOptions, FileSource, freeze, is_held_out
from rl.models import Feedback, Trace, TrainingSet, prompt_key
from tests.collect.make_command_center import write_files
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, questions, rate, rate_prompts, rated, read_rows
from tests.dataset_builder.read.test_judged import propose

ONE = DataOptions(min_samples=1, val_split=0)


def reward(agent, question: str, *values: float | None) -> None:
    for number, value in enumerate(values):
        make_trace(agent, question, f"Answer {number}.", reward=value)


@pytest.mark.database
def test_single_ratings_train_by_kto(agent, data_dir):
    good, bad = rated(agent, "A?", "Yes.", 1), rated(agent, "B?", "No.", 0)
    frozen = freeze(agent, ONE, method="kto")
    rows = {row["completion"][0]["content"]: row for row in read_rows(frozen, "train")}
    assert (rows["Yes."]["label"], rows["No."]["label"]) == (True, False)
    assert rows["Yes."]["prompt"] == [{"role": "user", "content": "A?"}]
    assert rows["Yes."]["feedback"] == [good.pk]
    assert rows["Yes."]["label_source"] == "person"
    assert (frozen.method, frozen.pair_type, frozen.feedback_count) == ("kto", "", 2)
    assert set(Feedback.objects.values_list("training_set", flat=True)) == {frozen.pk}
    assert bad.trace.memberships.get().training_set == frozen


@pytest.mark.database
def test_labels_come_from_people_then_proposals_then_rewards(agent, data_dir):
    agent.auto_label_threshold, agent.label_threshold = 0.8, 0.7
    agent.save()
    for number, (rating, proposal, value) in enumerate(
        [
            (0, (True, 0.9), 1.0),
            (None, (False, 0.9), 1.0),
            (None, (True, 0.6), 0.65),
            (None, None, 0.7),
            (None, None, None),
        ]
    ):
        trace = make_trace(agent, f"Question {number}?", str(number), reward=value)
        if rating is not None:
            rate(trace, rating)
        if proposal:
            propose(trace, *proposal)
    rows = {
        row["completion"][0]["content"]: (row["label"], row["label_source"])
        for row in all_rows(freeze(agent, ONE, method="kto"))
    }
    assert rows == {
        "0": (False, "person"),
        "1": (False, "proposed"),
        "2": (False, "reward"),
        "3": (True, "reward"),
    }


def test_without_a_threshold_no_proposal_is_trained_on(agent, data_dir):
    rated(agent, "A?", "Yes.", 1)
    rated(agent, "B?", "No.", 0)
    propose(make_trace(agent, "C?"), True, 1.0)
    assert len(all_rows(freeze(agent, ONE, method="kto"))) == 2


def test_picks_edited_answers_and_neutral_ratings_are_counted(agent, data_dir):
    rate_prompts(agent, 1)
    trace = make_trace(agent, "C?")
    rate(trace, 3, "bob", "stars")
    correct(trace, text="On Friday.", rater="bob", source="test")
    torn = make_trace(agent, "D?")
    rate(torn, 1, "alice")
    rate(torn, 0, "bob")
    frozen = freeze(agent, ONE, method="kto")
    assert frozen.stats["skipped"] == {
        "mean rating in the middle of the scale": 2,
        "side-by-side pick or edited answer: only preference pairs use it": 1,
    }
    assert (frozen.stats["ratings_read"], frozen.stats["ratings_usable"]) == (6, 2)
    assert (frozen.stats["prompts_read"], frozen.stats["prompts"], frozen.stats["disputed_answers"]) == (3, 1, 1)


def test_the_same_text_is_one_row_by_what_all_say_of_it(agent, data_dir):
    for number, value in enumerate((1, 0, 0)):
        rate(make_trace(agent, "Same?", "The same."), value, f"rater {number}")
    make_trace(agent, "Same?", "The same.\n", reward=1.0)
    rated(agent, "Other?", "The same.", 1)
    frozen = freeze(agent, ONE, method="kto")
    labels = {row["prompt"][0]["content"]: (row["label"], len(row["feedback"])) for row in all_rows(frozen)}
    assert labels == {"Same?": (False, 3), "Other?": (True, 1)}
    assert frozen.train_rows == 2
    assert frozen.members.count() == 5
    assert frozen.stats["skipped"] == {"duplicate": 3}


def test_a_pick_that_found_both_bad_labels_both(agent, data_dir):
    one, other = (make_trace(agent, "Which?", text) for text in ("Yes.", "No."))
    pick = compare(one, other, choice="both_bad", rater="alice", source="test").event
    taken_back = compare(one, other, choice="both_bad", rater="bob", source="test").event
    retract(taken_back, rater="bob", source="test")
    rated(agent, "Fine?", "Fine.", 1)
    frozen = freeze(agent, ONE, method="kto")
    rows = {row["completion"][0]["content"]: (row["label"], row["feedback"]) for row in all_rows(frozen)}
    assert rows["Yes."] == rows["No."] == (False, [pick.pk])
    assert (frozen.feedback_count, frozen.stats["skipped"]) == (2, {})


def test_answers_of_one_kind_only_are_refused_with_what_is_missing(agent, data_dir):
    for number in range(12):
        rated(agent, f"Question {number}?", "Yes.", 1)
    with pytest.raises(NotEnoughData, match="to train on are good, and KTO learns from the difference: rate some bad"):
        freeze(agent, DataOptions(), method="kto")
    assert not TrainingSet.objects.exists()


def test_too_few_labels_say_how_many_are_missing(agent, data_dir):
    rated(agent, "A?", "Yes.", 1)
    with pytest.raises(NotEnoughData) as caught:
        freeze(agent, DataOptions(), method="kto")
    assert str(caught.value).startswith(
        "1 rating of 1 prompt and the rewards give 1 labelled answer, and 10 are needed. rate 9 more answers, up or down, "
        "or let rewards label them: 'manage.py calculate_rewards --agent support-chat' computes them"
    )


def test_prompts_with_differing_rewards_make_groups(agent, data_dir):
    reward(agent, "A?", 0.9, 0.2)
    reward(agent, "B?", 0.5, 0.5)
    reward(agent, "C?", 0.5)
    reward(agent, "D?", 0.5, None)
    frozen = freeze(agent, ONE, method="grpo")
    [row] = all_rows(frozen)
    assert sorted(row["rewards"]) == [0.2, 0.9]
    assert {len(completion) for completion in row["completions"]} == {1}
    assert frozen.stats["skipped"] == {"only one answer with a reward": 2, "all answers have the same reward": 1}
    assert frozen.members.count() == 2


def test_prompts_in_other_words_under_one_key_are_other_groups(agent, data_dir):
    for question in ("Where?", "Where is it?"):
        for value in (0.1, 0.9):
            make_trace(agent, question, f"{question} {value}", reward=value, prompt_key="q1")
    rows = all_rows(freeze(agent, ONE, method="grpo"))
    assert {row["prompt"][0]["content"] for row in rows} == {"Where?", "Where is it?"}


def test_too_few_groups_say_what_would_make_more(agent, data_dir):
    reward(agent, "A?", 0.9, 0.2)
    reward(agent, "B?", 0.5)
    rated(agent, "C?", "Yes.", 1)
    with pytest.raises(NotEnoughData) as caught:
        freeze(agent, DataOptions(), method="grpo")
    assert str(caught.value).startswith(
        "1 prompt has answers whose rewards differ, and 10 are needed. 1 prompt with one rewarded answer: let the agent "
        "answer again. 1 answer without a reward: 'manage.py calculate_rewards --agent support-chat' computes them"
    )


@pytest.mark.parametrize("method", ["kto", "grpo", "reward"])
def test_answers_without_text_are_counted_as_such(agent, data_dir, method):
    for text in ("", " \n"):
        make_trace(agent, "A?", text, reward=0.5)
    with pytest.raises(NotEnoughData, match="2 answers are empty: collect answers with text. left out: 2 empty answer"):
        freeze(agent, DataOptions(), method=method)


@pytest.mark.parametrize("method", ["kto", "grpo", "reward"])
def test_an_agent_without_answers_is_told_so(agent, data_dir, method):
    with pytest.raises(NotEnoughData, match="support-chat has no answers yet, and 10 rows to train on are needed"):
        freeze(agent, DataOptions(), method=method)


@pytest.mark.database
def test_where_no_reward_waits_computing_them_is_not_advised(agent, data_dir):
    rate(make_trace(agent, "A?", "Yes.", reward_pending=False), 1)
    Trace.objects.update(reward_pending=False)
    with pytest.raises(
        NotEnoughData, match="1 answer without a reward: no reward applies: set the agent's answer format"
    ):
        freeze(agent, DataOptions(), method="grpo")
    with pytest.raises(NotEnoughData, match="rate 9 more answers, up or down$"):
        freeze(agent, DataOptions(), method="kto")


def test_rewarded_answers_make_reward_rows(agent, data_dir):
    reward(agent, "A?", 0.9, None)
    [row] = all_rows(freeze(agent, ONE, method="reward"))
    assert (row["completion"], row["reward"]) == ([{"role": "assistant", "content": "Answer 0."}], 0.9)
    with pytest.raises(NotEnoughData, match="1 answer has a reward, and 10 are needed"):
        freeze(agent, DataOptions(), method="reward")


def test_a_prompt_is_on_the_same_side_for_every_method(agent, data_dir):
    for number in range(30):
        for value in (0, 1):
            trace = make_trace(agent, f"Question {number}?", f"Answer {value}.", reward=value)
            rate(trace, value)
    sides = []
    for method in ("dpo", "kto", "grpo", "reward"):
        frozen = freeze(agent, DataOptions(val_split=0.3), method=method)
        sides.append({row["split_key"] for row in read_rows(frozen, "heldout")})
        assert all(is_held_out(agent.name, key, 0.3) for key in sides[-1])
        assert not sides[-1] & {row["split_key"] for row in read_rows(frozen, "train")}
    assert sides[0]
    assert sides[0] == sides[1] == sides[2] == sides[3]


def test_prompts_in_other_words_under_one_key_are_on_the_side_of_their_words(agent, data_dir):
    for number in range(30):
        for words in ("Where?", "Where is it?"):
            for value in (0, 1):
                question = f"{words} {number}"
                rate(make_trace(agent, question, f"Answer {value}.", reward=value, prompt_key=f"q{number}"), value)
    for method in ("dpo", "kto", "grpo", "reward"):
        frozen = freeze(agent, DataOptions(val_split=0.5), method=method)
        for name in ("train", "heldout"):
            keys = {prompt_key(row["prompt"]) for row in read_rows(frozen, name)}
            assert {is_held_out(agent.name, key, 0.5) for key in keys} == {name == "heldout"}, method


def test_rows_that_are_all_held_out_are_not_enough(agent, data_dir):
    for question in questions(agent, held_out=True)[:3]:
        reward(agent, question, 0.1, 0.9)
    with pytest.raises(NotEnoughData, match="all 3 rows of 3 prompts are held out for testing"):
        freeze(agent, DataOptions(min_samples=1), method="grpo")


def test_the_same_answers_give_the_same_set(agent, data_dir):
    reward(agent, "A?", 0.9, 0.2)
    assert freeze(agent, ONE, method="grpo") == freeze(agent, ONE, method="grpo")


def test_unknown_methods_and_files_for_kto_are_refused(agent, data_dir, tmp_path):
    with pytest.raises(UsageError, match="unknown kind of rows 'ppo'.*; known: mpo, sft, dpo, kto, grpo, agent"):
        freeze(agent, ONE, method="ppo")
    files = write_files(tmp_path, questions=2)
    with pytest.raises(UsageError, match="rows for kto come from the database"):
        freeze(agent, ONE, FileSource(files.entries, files.ratings), method="kto")
