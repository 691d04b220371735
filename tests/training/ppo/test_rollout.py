"""What becomes of answers that end at once, in time, or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.base.records import AnswerScore, TraceRecord
from rl.config import PPOConfig
from rl.lm import loading
from rl.training.ppo.networks import Networks
from rl.training.ppo.rollout import Collector

pytestmark = pytest.mark.learn


TOKENS = 6
ROW = {"prompt": [{"role": "user", "content": "Question?"}], "details": {"city": "Bonn"}, "prompt_ids": [5, 6]}


class Made:
    """A collector whose policy gave three answers: nothing, "Thank you", and one that goes on and on."""

    def __init__(self, base: Path, score: float = 0.5, **overrides: Any) -> None:
        self.score = score
        config = PPOConfig(max_new_tokens=TOKENS, lora_r=4, mini_batch_size=2, init_kl_coef=0.0, **overrides)
        tokenizer = loading.load_tokenizer(str(base))
        torch.manual_seed(1)
        networks = Networks(loading.load_base(str(base)), config)
        thanks, end = tokenizer.encode("Thank you"), tokenizer.eos_token_id
        self.answers = [[end], [*thanks, end], [thanks[0]] * TOKENS]
        self.asked: list[TraceRecord] = []
        networks.sample = lambda *asked, **how: self.answers  # type: ignore[method-assign]
        self.rollout = Collector(networks, tokenizer, self._score, config)([ROW] * 3, 0.0, lambda: None)

    def _score(self, trace: TraceRecord) -> AnswerScore:
        self.asked.append(trace)
        return AnswerScore(self.score, {"polite": 0.25 * len(self.asked)})


@pytest.fixture(scope="module")
def sample(tiny_base: Path) -> Made:
    return Made(tiny_base, missing_eos_penalty=0.4)


def lengths(sample: Made) -> Sequence[float]:
    return sample.rollout.sequences.mask.sum(dim=1).tolist()


def test_an_answer_counts_up_to_its_end_and_the_end_itself(sample: Made):
    assert lengths(sample) == [1, len(sample.answers[1]), TOKENS]


def test_an_empty_answer_earns_nothing_and_no_reward_is_asked(sample: Made):
    assert [trace.response for trace in sample.asked][0] == "Thank you"
    assert len(sample.asked) == 2
    assert sample.asked[0].details == {"city": "Bonn"}
    assert (sample.asked[0].tokens_in, sample.asked[0].tokens_out) == (2, len(sample.answers[1]))
    assert sample.rollout.metrics["reward"] == pytest.approx((0 + 0.5 + 0.5) / 3)


def test_an_answer_that_does_not_end_pays_for_it(sample: Made):
    assert sample.rollout.metrics["cut_completions"] == pytest.approx(1 / 3)
    ends = sample.rollout.returns[range(3), [int(length) - 1 for length in lengths(sample)]]
    assert ends.tolist() == pytest.approx([0, 0.5, 0.1]), "the values start at 0, so a return is what was earned"


def test_nothing_is_learned_at_padding(sample: Made):
    outside = sample.rollout.sequences.mask == 0
    for tensor in (
        sample.rollout.advantages,
        sample.rollout.returns,
        sample.rollout.values,
        sample.rollout.log_probs,
    ):
        assert not tensor[outside].any()


@pytest.mark.parametrize(("score", "spread"), [(0.5, 1.0), (0.0, 0.005)])
def test_noise_keeps_its_size_where_all_answers_earn_the_same(
    tiny_base: Path, monkeypatch: pytest.MonkeyPatch, score: float, spread: float
):
    """An empty answer earns 0."""

    def wrong_values(networks: Networks, part: Any) -> torch.Tensor:
        return 0.001 * torch.arange(part.mask.shape[1]) * part.mask

    monkeypatch.setattr(Networks, "values", wrong_values)
    rollout = Made(tiny_base, score).rollout
    advantages = rollout.advantages[rollout.sequences.mask.bool()]
    assert float(advantages.std()) <= spread * 1.001
    assert float(advantages.abs().max()) > 0


def test_before_it_has_learned_the_policy_is_the_reference(sample: Made):
    assert sample.rollout.metrics["kl"] == 0


def test_each_reward_is_told_apart(sample: Made):
    assert sample.rollout.metrics["polite"] == pytest.approx((0.25 + 0.5) / 2)
