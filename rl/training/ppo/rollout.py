"""What PPO learns from in one batch, answers of the policy, their rewards, and what all three networks say of them; and how
it learns from that, by some passes over it in shuffled mini-batches.

Minimises policy loss + vf_coef * value loss (math.py), each the mean over the tokens of a mini-batch, by AdamW without
weight decay.

Shapes: B answers of the batch, b of one forward pass, P tokens of the longest prompt, T of the longest answer, V tokens in
the vocabulary. Until ``Collector`` has put the parts of all processes together, B and T are those of one process.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedTokenizerBase, StoppingCriteria, StoppingCriteriaList

from rl.base.errors import TrainingFailed
from rl.base.records import AnswerScore, Scorer
from rl.config.base import FULL_LEARNING_RATE
from rl.config.ppo_config import PPOConfig
from rl.data_formatter.fresh import fresh_trace
from rl.lm import processes
from rl.lm.encoding import answer_words
from rl.lm.shared_prompts import pad_left
from rl.training.ppo import math as ppo_math
from rl.training.ppo.networks import Networks, PaddedSequences, token_log_probs

Beat = Callable[[], None]
"""Says that the work goes on; raises Interrupted when it should not."""


@dataclass(frozen=True, slots=True)
class Rollout:
    sequences: PaddedSequences
    log_probs: Tensor
    """(B, T) of the policy that answered."""
    values: Tensor
    """(B, T)"""
    advantages: Tensor
    """(B, T), whitened; only centred where all answers earned the same."""
    returns: Tensor
    """(B, T)"""
    metrics: Mapping[str, float]


class _BeatAtEachToken(StoppingCriteria):
    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: Any) -> Tensor:
        self._beat()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class Collector:
    """Makes rollouts of batches of rows. Each process answers, rewards and judges its part; then all have the whole."""

    def __init__(
        self, networks: Networks, tokenizer: PreTrainedTokenizerBase, scorer: Scorer, config: PPOConfig
    ) -> None:
        self._networks, self._tokenizer, self._scorer, self._config = networks, tokenizer, scorer, config
        of_model = networks.policy.generation_config.eos_token_id
        ends = {tokenizer.eos_token_id, *([of_model] if isinstance(of_model, int) else of_model or [])}
        self._ends = sorted(number for number in ends if number is not None)

    def __call__(self, rows: Sequence[Mapping[str, Any]], coefficient: float, beat: Beat) -> Rollout:
        # P is the same in all processes, so that their answers can be stacked
        width = max(len(row["prompt_ids"]) for row in rows)
        rows = [rows[number] for number in processes.own_part(len(rows))]
        # this process's part: answers, their scores, and what the networks say of them
        own = self._generate([row["prompt_ids"] for row in rows], width, beat)
        all_scores = processes.gather_items(self._score_all(rows, own, beat))
        log_probs, reference, values = (processes.stack_rows(of) for of in self._run_networks(own, beat))
        # whole batch: from here on B answers, the same in every process
        stack, pad = processes.stack_rows, self._tokenizer.pad_token_id
        sequences = PaddedSequences(stack(own.ids, pad), stack(own.attention), stack(own.mask))
        scores = torch.tensor(_values(all_scores), device=values.device)  # (B,)
        names = {name for score in all_scores for name in score.components}
        # (B,): no end-of-turn token before the length ran out
        ends = torch.isin(sequences.answers, torch.tensor(self._ends, device=sequences.answers.device))
        unfinished = ~(ends & sequences.mask.bool()).any(dim=1)
        # rewards (B, T): the KL penalty at each token, the score less the penalty for a missing end at the last one
        kl = ppo_math.token_kl(log_probs, reference, sequences.mask)
        penalised = scores - self._config.missing_eos_penalty * unfinished.float()
        rewards = ppo_math.token_rewards(penalised, kl, sequences.mask, coefficient)
        # advantages and returns (B, T), against the values of before the update
        advantages, returns = ppo_math.generalised_advantages(
            rewards, values, sequences.mask, self._config.gamma, self._config.lam
        )
        # where all answers earn the same, the rest is noise, which must not become steps of the usual size
        normalise = ppo_math.whiten if penalised.std(correction=0) > 0 else ppo_math.centre
        return Rollout(
            sequences=sequences,
            log_probs=log_probs,
            values=values,
            advantages=normalise(advantages, sequences.mask),
            returns=returns,
            metrics={
                **{name: fmean(s.components[name] for s in all_scores if name in s.components) for name in names},
                "reward": float(scores.mean()),
                "reward_std": float(scores.std(correction=0)),
                "kl": float(kl.sum(dim=1).mean()),
                "kl_coef": coefficient,
                "explained_variance": ppo_math.explained_variance(values, returns, sequences.mask),
                "completion_length": float(sequences.mask.sum(dim=1).mean()),
                "cut_completions": float(unfinished.float().mean()),
            },
        )

    def _generate(self, prompts: Sequence[list[int]], width: int, beat: Beat) -> PaddedSequences:
        """Answers of the policy. ``width``: tokens that the prompts are padded to."""
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
        return PaddedSequences(torch.cat([ids, padded], dim=1), torch.cat([attention, mask], dim=1), mask.float())

    def _score_all(
        self, rows: Sequence[Mapping[str, Any]], sequences: PaddedSequences, beat: Beat
    ) -> list[AnswerScore]:
        scores = []
        for row, ids, kept in zip(rows, sequences.answers, sequences.mask.bool(), strict=True):
            beat()
            text = answer_words(self._tokenizer, ids[kept].tolist())
            if text.strip():
                scores.append(self._scorer(fresh_trace(row, text, len(row["prompt_ids"]), int(kept.sum()))))
            else:
                scores.append(AnswerScore(0.0))  # an empty answer earns nothing
        return scores

    @torch.no_grad()
    def _run_networks(self, sequences: PaddedSequences, beat: Beat) -> tuple[Tensor, Tensor, Tensor]:
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


_MEASURED = ("loss", "policy_loss", "value_loss", "clip_fraction", "value_clip_fraction", "entropy")


class Updater:
    """Adam over the weights of policy and value. Each has its own gradient clipping: they share no weight."""

    def __init__(self, networks: Networks, config: PPOConfig) -> None:
        self._networks, self._config = networks, config
        self._groups = (networks.policy_weights(), networks.value_weights())
        # The value is an adapter in any case, which wants an adapter's steps.
        scales = (1.0, 1 / FULL_LEARNING_RATE if config.full else 1.0)
        groups = [{"params": group, "scale": scale} for group, scale in zip(self._groups, scales, strict=True)]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=0.0)

    def __call__(self, rollout: Rollout, learning_rate: float, beat: Beat) -> dict[str, float]:
        """The means over all updates of what was measured."""
        self._networks.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        sums: defaultdict[str, float] = defaultdict(float)
        updates = 0
        # ppo_epochs passes over the same answers: the ratio starts at 1 and is clipped as the policy moves
        for _ in range(int(self._config.ppo_epochs)):
            for rows in torch.randperm(len(rollout.sequences)).split(int(self._config.mini_batch_size)):
                for name, value in self._step(rollout, rows, beat).items():
                    sums[name] += value
                updates += 1
        return {name: value / updates for name, value in sums.items()} | {"learning_rate": learning_rate}

    def _step(self, rollout: Rollout, rows: Tensor, beat: Beat) -> dict[str, float]:
        """Every process has the whole rollout, takes its share of the rows, and gets the gradient of all of them."""
        self.optimizer.zero_grad(set_to_none=True)
        # tokens of the whole mini-batch: the denominator of every part's mean
        tokens = rollout.sequences.mask[rows.to(rollout.log_probs.device)].sum()
        sums = dict.fromkeys(_MEASURED, 0.0)
        own = rows[processes.rank() :: processes.count()]  # none, where a small last mini-batch is not enough for all
        for part in own.split(processes.share(self._config.rows_a_pass)) if len(own) else ():
            beat()
            for name, value in self._backward(rollout, part.to(tokens.device), tokens).items():
                sums[name] += value
        # gradients: summed over processes, then clipped for policy and value apart, then one step of both
        for weight in (weight for group in self._groups for weight in group):
            weight.grad = processes.total(torch.zeros_like(weight) if weight.grad is None else weight.grad)
        most = self._config.max_grad_norm or math.inf  # a limit of 0 means none
        norms = [float(clip_grad_norm_(group, most)) for group in self._groups]
        self.optimizer.step()
        return {**processes.totals(sums), "grad_norm": math.hypot(*norms)}  # of all gradients, before they were clipped

    def _backward(self, rollout: Rollout, rows: Tensor, tokens: Tensor) -> dict[str, float]:
        """``tokens``: of the whole mini-batch, so that its parts weigh as many tokens as they have."""
        sequences, config = rollout.sequences[rows], self._config
        share = float(sequences.mask.sum() / tokens)
        # policy: its backward pass comes before the value's forward pass, which switches the adapter
        logits = self._networks.logits(sequences, config.temperature)  # (b, T, V)
        log_probs = token_log_probs(logits, sequences.answers)  # (b, T)
        old, advantages = rollout.log_probs[rows], rollout.advantages[rows]
        policy = ppo_math.policy_loss(log_probs, old, advantages, sequences.mask, config.cliprange)
        (policy.loss * share).backward()
        # entropy is only measured, not rewarded
        entropy = ppo_math.masked_mean(ppo_math.entropy(logits.detach()), sequences.mask)
        # value: the same tokens under the other adapter
        values = self._networks.values(sequences)  # (b, T)
        old_values, returns = rollout.values[rows], rollout.returns[rows]
        value = ppo_math.value_loss(values, old_values, returns, sequences.mask, config.cliprange_value)
        (config.vf_coef * value.loss * share).backward()
        loss = policy.loss + config.vf_coef * value.loss
        measures = (loss, policy.loss, value.loss, policy.fraction, value.fraction, entropy)
        return {name: float(of.detach()) * share for name, of in zip(_MEASURED, measures, strict=True)}
