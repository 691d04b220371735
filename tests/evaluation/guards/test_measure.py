"""Guard rails on real answers of the tiny model."""

from typing import Any

import pytest
import torch

from rl.base.measurements import Interval
from rl.base.records import AnswerScore, TraceRecord, silent
from rl.evaluation.gate import Verdict
from rl.evaluation.guards import measure as guarding
from rl.evaluation.guards.measure import PROMPTS, Guards, GuardWatch, one_of_each_prompt, watch
from rl.evaluation.torch.answering import answer_versions
from rl.evaluation.torch.scoring import score_versions
from rl.lm import loading
from rl.lm.divergence import divergence, fit_to_prompts, likelihood, log_probs_of, mean_of
from rl.models import Agent, Trace
from tests.evaluation.conftest import PAIRS, TOO_LONG, pair

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
LENGTHS: dict[str, Any] = {"max_length": 96, "report": silent}


def abstains(trace: TraceRecord) -> AnswerScore:
    return AnswerScore(None)


def watch_of(agent: Agent, rows: list, score: Any = abstains, most: int = 12) -> GuardWatch:
    return watch(agent, rows, lambda: score, most_tokens=most, **LENGTHS)


@pytest.fixture
def ask_models(agent, tiny_base, adapter) -> Any:
    def ask(rows: list, score: Any = abstains, weights: Any = adapter) -> GuardWatch:
        watched = watch_of(agent, rows, score)
        score_versions(str(tiny_base), {"base": None, "new": weights}, rows, also=watched.speaker, **LENGTHS)
        return watched

    return ask


def test_the_models_answer_while_they_are_loaded_for_their_scores(ask_models, tiny_base, adapter):
    watched = ask_models([TOO_LONG, *PAIRS])
    guards = watched.guards()
    assert guards.report["prompts"] == 3
    rows = [row for row in watched.rows if row["prompt_key"] != TOO_LONG["prompt_key"]]
    expected = answer_versions(
        str(tiny_base), {"base": None, "new": adapter}, rows, max_new_tokens=watched.speaker.most["new"], **LENGTHS
    )
    for name in ("base", "new"):
        texts = [answer.text for answer in watched.speaker.answers[name] if answer]
        assert texts == [answer.text for answer in expected[name]]
    assert guards.report["models"]["current"] == guards.report["models"]["base"]
    assert {sample["new"]["answer"] for sample in guards.report["samples"]} == set(texts)


def test_the_answers_to_every_prompt_are_kept_side_by_side_with_their_errors(agent, tiny_base, adapter, other_adapter):
    rows = [pair(1, f"Open Orders {number}.", "No.") | {"prompt_key": f"q{number}"} for number in range(PROMPTS)]
    watched = watch_of(agent, rows, most=4)
    models = {"base": None, "new": adapter}
    score_versions(str(tiny_base), models, rows, also=watched.speaker, **LENGTHS)
    samples = watched.guards().report["samples"]
    assert len(samples) == PROMPTS
    assert all(sample.keys() == {"prompt", "prompt_key", "new", "base"} for sample in samples)
    score_versions(str(tiny_base), models | {"current": other_adapter}, rows, also=watched.speaker, **LENGTHS)
    sample = watched.guards().report["samples"][0]
    assert sample["prompt"] == "Where is parcel 1?"
    for name in guarding.MODELS:
        assert sample[name]["answer"] in {answer.text for answer in watched.speaker.answers[name]}
        assert "too_long" in sample[name]["errors"]


def test_the_divergence_is_that_of_both_models_at_each_token(ask_models, tiny_base, adapter):
    watched = ask_models(PAIRS[:1])
    model, tokenizer = loading.load_base(str(tiny_base)).eval(), loading.load_tokenizer(str(tiny_base))
    prompt = tokenizer.apply_chat_template(PAIRS[0]["prompt"], add_generation_prompt=True)["input_ids"]
    with torch.no_grad(), loading.with_weights(model, adapter) as adapted:
        answer = adapted.generate(
            input_ids=torch.tensor([prompt]), max_new_tokens=watched.speaker.most["new"], do_sample=False
        )[:, len(prompt) :]
        whole = torch.tensor([[*prompt, *answer[0].tolist()]])
        new = adapted(input_ids=whole).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        with adapted.disable_adapter():
            old = adapted(input_ids=whole).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    expected = (new.exp() * (new - old)).sum(-1).mean().item()
    assert watched.speaker.meter.distance.kl == pytest.approx(expected, rel=1e-3)
    assert expected > 0
    said = old.gather(1, answer[0][:, None]).mean().item()
    assert watched.speaker.meter.distance.likelihood == pytest.approx(said, rel=1e-3)


def test_the_base_finds_its_own_answers_as_likely_as_it_said_them(ask_models, tiny_base, adapter):
    watched = ask_models(PAIRS[:1], weights=adapter)
    model, tokenizer = loading.load_base(str(tiny_base)).eval(), loading.load_tokenizer(str(tiny_base))
    prompt = tokenizer.apply_chat_template(PAIRS[0]["prompt"], add_generation_prompt=True)["input_ids"]
    output = model.generate(
        input_ids=torch.tensor([prompt]),
        max_new_tokens=watched.speaker.most["base"],
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    steps = [logits[0].log_softmax(-1).max().item() for logits in output.logits]
    assert watched.speaker.meter.distance.base_likelihood == pytest.approx(sum(steps) / len(steps), rel=1e-3)


def measure(model: Any, adapted: Any, sequences: list) -> list[float]:
    moved, own = divergence(model, adapted, sequences)
    return [moved, mean_of(own)]


def test_a_model_has_not_moved_from_itself_and_padding_changes_nothing(tiny_base, adapter):
    model = loading.load_base(str(tiny_base)).eval()
    sequences = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9, 10])]
    moved, own = divergence(model, model, sequences)
    assert (moved, mean_of(own)) == pytest.approx((0, likelihood(model, sequences)), abs=1e-6)
    assert divergence(model, model, []) is likelihood(model, []) is None
    with loading.with_weights(model, adapter) as adapted:
        together = measure(model, adapted, sequences)
        first, second = (measure(model, adapted, [sequence]) for sequence in sequences)
    # means over 2 and 5 tokens
    expected = [(2 * short + 5 * long) / 7 for short, long in zip(first, second, strict=True)]
    assert together == pytest.approx(expected, rel=1e-4)


def test_an_answer_fits_as_often_as_it_is_likelier_behind_its_own_prompt(tiny_base):
    model = loading.load_base(str(tiny_base)).eval()
    sequences = [([5, 6, 7], [8, 9]), ([9, 4], [6, 7]), ([3], [5, 5, 5])]
    own = log_probs_of(model, sequences)
    expected = []
    for number, (prompt, answer) in enumerate(sequences):
        others = [other for at, (other, _) in enumerate(sequences) if at != number]
        sums = [float(log_probs_of(model, [(one, answer)])[0].sum()) for one in (prompt, *others)]
        expected += [float(sums[0] > other) for other in sums[1:]]
    assert fit_to_prompts(model, sequences, own) == pytest.approx(sum(expected) / len(expected))
    same = [([5, 6], [8, 9])] * 4
    assert fit_to_prompts(model, same, log_probs_of(model, same)) == 0.5
    assert fit_to_prompts(model, same[:1], own) is None


@pytest.mark.parametrize("measures", [True, False])
def test_how_answers_fit_is_measured_where_it_is_asked_for(agent, tiny_base, adapter, measures: bool):
    agent.guard_limits = {} if measures else {"relevance": None}
    rows = [
        pair(1, f"Open Orders {number}.", "No.") | {"prompt": [{"role": "user", "content": f"Order {number}?"}]}
        for number in range(8)
    ]
    watched = watch_of(agent, [row | {"prompt_key": f"q{number}"} for number, row in enumerate(rows)], most=4)
    score_versions(str(tiny_base), {"base": None, "new": adapter}, rows, also=watched.speaker, **LENGTHS)
    fit = watched.speaker.meter.distance.fit
    assert (fit is not None) is measures
    assert not measures or all(0 <= share <= 1 for share in (fit.new, fit.base, fit.chosen))
    rails = {rail["name"]: rail for rail in watched.guards().report["rails"]}
    assert ("relevance" in rails) is measures
    assert not measures or rails["relevance"]["value"] == min(fit.base, fit.chosen) - fit.new


def test_all_are_asked_and_the_first_sixteen_are_guarded(agent):
    watched = watch_of(agent, [pair(number, "Yes.", "No.") for number in range(1, 31)])
    assert (len(watched.asked), watched.rows) == (30, watched.asked[:PROMPTS])


def test_a_prompt_stands_there_once_whatever_the_order_of_its_pairs():
    rows = [pair(number, "Yes.", "No.") for number in range(1, 31) for _ in range(2)]
    ordered = [row["prompt_key"] for row in one_of_each_prompt(rows)]
    assert len(ordered) == 30
    assert ordered == [row["prompt_key"] for row in one_of_each_prompt(rows[::-1])]


def test_pairs_get_the_details_that_are_stored_with_their_prompt(agent):
    Trace.objects.create(agent=agent, prompt=[], prompt_key="q1", response="", details={"format": "json"})
    assert {row["prompt_key"]: row["details"] for row in watch_of(agent, PAIRS).rows} == {
        "q1": {"format": "json"},
        "q2": {},
        "q4": {},
    }


def test_a_format_that_the_agent_asks_for_is_checked(ask_models, agent):
    agent.answer_format = "json"
    report = ask_models(PAIRS).guards().report
    [rail] = [rail for rail in report["rails"] if rail["name"] == "parse_error_rate"]
    assert rail["value"] == 0
    assert report["models"]["new"]["errors"]["parse"] == 1


def test_rewards_are_compared_and_one_that_breaks_is_told_and_left_out(ask_models):
    report = ask_models(PAIRS, lambda trace: AnswerScore(0.25)).guards().report
    assert {name: of_model["reward"] for name, of_model in report["models"].items()} == dict.fromkeys(
        guarding.MODELS, 0.25
    )

    def breaks(trace: TraceRecord) -> AnswerScore:
        raise guarding.RewardFailed("vowels", "no")

    broken = ask_models(PAIRS, breaks).guards().report
    assert broken["rewards_broke"] == "reward vowels: no"
    assert broken["models"]["new"]["reward"] is None


def test_without_a_prompt_to_ask_the_reason_is_told(agent, ask_models):
    assert watch_of(agent, []).guards().report == {"skipped": "no prompts are held out"}
    assert ask_models([TOO_LONG]).guards().report == {"skipped": "the held-out prompts leave no room for an answer"}


def test_a_broken_guard_rail_rejects_whatever_the_pairs_say():
    better = Verdict("promote", Interval(0.5, 0.3, 0.7), "The new version is better.")
    rejected = Guards({}, "A guard rail is broken: empty_rate.").over(better)
    assert rejected.decision == "reject"
    assert rejected.reason == "A guard rail is broken: empty_rate. Without it: The new version is better."
    assert Guards({}).over(better) == better
