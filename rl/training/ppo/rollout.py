"""What PPO learns from in one batch: answers of the policy, their rewards, and what all three networks say of them.

Shapes: B answers of the batch, P tokens of the longest prompt, T of the longest answer. Until ``Collector`` has put the
parts of all processes together, B and T are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, StoppingCriteria, StoppingCriteriaList

from rl.base.errors import TrainingFailed
from rl.base.records import AnswerScore, Scorer
from rl.config.ppo_config import PPOConfig
from rl.data_formatter.fresh import fresh_trace
from rl.lm import processes
from rl.lm.encoding import answer_words
from rl.lm.shared_prompts import pad_left
from rl.training.ppo import math as ppo_math
from rl.training.ppo.networks import Networks, Sequences, token_log_probs

Beat = Callable[[], None]
"""Says that the work goes on; raises Interrupted when it should not."""


@dataclass(frozen=True, slots=True)
class Rollout:
    sequences: Sequences
    log_probs: Tensor
    """(B, T) of the policy that answered."""
    values: Tensor
    """(B, T)"""
    advantages: Tensor
    """(B, T), whitened."""
    returns: Tensor
    """(B, T)"""
    metrics: Mapping[str, float]


class Generator:
    """Samples answers of the policy."""

    def __init__(self, networks: Networks, tokenizer: PreTrainedTokenizerBase, config: PPOConfig) -> None:
        self._networks, self._tokenizer, self._config = networks, tokenizer, config
        of_model = networks.policy.generation_config.eos_token_id
        ends = {tokenizer.eos_token_id, *([of_model] if isinstance(of_model, int) else of_model or [])}
        self._ends = sorted(number for number in ends if number is not None)

    def __call__(self, prompts: Sequence[list[int]], width: int, beat: Beat) -> Sequences:
        """``width``: tokens that the prompts are padded to."""
        self._networks.train(False)
        answers = self._networks.sample(
            self._tokenizer,
            prompts,
            most=int(self._config.max_new_tokens),
            temperature=self._config.temperature,
            top_p=self._config.top_p,
            top_k=int(self._config.top_k),
            stopping_criteria=StoppingCriteriaList([_BeatAtEachToken(beat)]),
        )
        # prompts padded on the left to (B, P), answers on the right behind their end to (B, T)
        pad, longest = self._tokenizer.pad_token_id, max(map(len, answers))
        ids, attention = pad_left(prompts, pad, width)
        padded = ids.new_tensor([answer + [pad] * (longest - len(answer)) for answer in answers])
        mask = ids.new_tensor([[1] * len(answer) + [0] * (longest - len(answer)) for answer in answers])
        return Sequences(torch.cat([ids, padded], dim=1), torch.cat([attention, mask], dim=1), mask.float())

    def texts(self, sequences: Sequences) -> list[str]:
        answers = zip(sequences.answers, sequences.mask.bool(), strict=True)
        return [answer_words(self._tokenizer, ids[kept].tolist()) for ids, kept in answers]

    def is_unfinished(self, sequences: Sequences) -> Tensor:
        """(B,) bool: no end-of-turn token before the length ran out."""
        ends = torch.isin(sequences.answers, torch.tensor(self._ends, device=sequences.answers.device))
        return ~(ends & sequences.mask.bool()).any(dim=1)

    def of_all_processes(self, own: Sequences) -> Sequences:
        stack, pad = processes.stack_rows, self._tokenizer.pad_token_id
        return Sequences(stack(own.ids, pad), stack(own.attention), stack(own.mask))


class _BeatAtEachToken(StoppingCriteria):
    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: Any) -> Tensor:
        self._beat()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class Collector:
    """Makes rollouts of batches of rows. Each process answers, rewards and judges its part; then all have the whole."""

    def __init__(self, networks: Networks, generator: Generator, scorer: Scorer, config: PPOConfig) -> None:
        self._networks, self._generator, self._scorer, self._config = networks, generator, scorer, config

    def __call__(self, rows: Sequence[Mapping[str, Any]], coefficient: float, beat: Beat) -> Rollout:
        # P is the same in all processes, so that their answers can be stacked
        width = max(len(row["prompt_ids"]) for row in rows)
        rows = [rows[number] for number in processes.own_part(len(rows))]
        # this process's part: answers, their scores, and what the networks say of them
        own = self._generator([row["prompt_ids"] for row in rows], width, beat)
        all_scores = processes.gather_items(self._score_all(rows, own, beat))
        log_probs, reference, values = (processes.stack_rows(of) for of in self._run_networks(own, beat))
        # whole batch: from here on B answers, the same in every process
        sequences = self._generator.of_all_processes(own)
        scores = torch.tensor(_values(all_scores), device=values.device)  # (B,)
        unfinished = self._generator.is_unfinished(sequences)
        # rewards (B, T): the KL penalty at each token, the score less the penalty for a missing end at the last one
        kl = ppo_math.token_kl(log_probs, reference, sequences.mask)
        penalised = scores - self._config.missing_eos_penalty * unfinished.float()
        rewards = ppo_math.token_rewards(penalised, kl, sequences.mask, coefficient)
        # advantages and returns (B, T), against the values of before the update
        advantages, returns = ppo_math.generalised_advantages(
            rewards, values, sequences.mask, self._config.gamma, self._config.lam
        )
        return Rollout(
            sequences=sequences,
            log_probs=log_probs,
            values=values,
            advantages=ppo_math.whiten(advantages, sequences.mask),
            returns=returns,
            metrics={
                **_means(all_scores),
                "reward": float(scores.mean()),
                "reward_std": float(scores.std(correction=0)),
                "kl": float(kl.sum(dim=1).mean()),
                "kl_coef": coefficient,
                "explained_variance": ppo_math.explained_variance(values, returns, sequences.mask),
                "completion_length": float(sequences.mask.sum(dim=1).mean()),
                "cut_completions": float(unfinished.float().mean()),
            },
        )

    def _score_all(self, rows: Sequence[Mapping[str, Any]], sequences: Sequences, beat: Beat) -> list[AnswerScore]:
        texts, lengths = self._generator.texts(sequences), sequences.mask.sum(dim=1).int().tolist()
        return [self._score(*answer, beat) for answer in zip(rows, texts, lengths, strict=True)]

    def _score(self, row: Mapping[str, Any], answer: str, tokens: int, beat: Beat) -> AnswerScore:
        """An empty answer earns nothing."""
        beat()
        if not answer.strip():
            return AnswerScore(0.0)
        return self._scorer(fresh_trace(row, answer, len(row["prompt_ids"]), tokens))

    @torch.no_grad()
    def _run_networks(self, sequences: Sequences, beat: Beat) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities under the policy and the reference, and values: (B, T) each."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows in torch.arange(len(sequences)).split(processes.share(self._config.rows_a_pass)):
            beat()
            part = sequences[rows.to(sequences.ids.device)]
            # log-probabilities (b, T) of the policy, then of the reference; the logits (b, T, V) are not kept
            networks = (self._networks.logits, self._networks.reference_logits)
            logits = (network(part, self._config.temperature) for network in networks)
            policy, reference = (token_log_probs(of, part.answers) * part.mask for of in logits)
            parts.append((policy, reference, self._networks.values(part)))
        policies, references, values = zip(*parts, strict=True)
        return torch.cat(policies), torch.cat(references), torch.cat(values)


def _values(scores: Sequence[AnswerScore]) -> list[float]:
    """An answer that no reward applies to counts as the mean of the others."""
    known = [score.value for score in scores if score.value is not None]
    if not known:
        raise TrainingFailed(
            f"no reward applies to any of {len(scores)} answers: PPO has nothing to learn from; "
            "choose rewards that judge an answer by itself, or give a reward model"
        )
    return [fmean(known) if score.value is None else score.value for score in scores]


def _means(scores: Sequence[AnswerScore]) -> dict[str, float]:
    names = {name for score in scores for name in score.components}
    return {name: fmean(score.components[name] for score in scores if name in score.components) for name in names}
