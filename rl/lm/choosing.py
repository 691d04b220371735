"""Answers of a closed set, chosen as the gateway has a served model choose them (rl/serving/gateway/choosing.py).

Shapes: B prompts, T tokens of the longest with what its answers have in common, V words."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.base.records import Choosing, silent
from rl.data_formatter.answer_tree import AnswerTree, Parting, Scores, choose_option, fit_trust
from rl.lm import loading
from rl.lm.encoding import encode
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.lm.shared_prompts import pad_left

Ids = list[int]
MOST_MEANT: Final = 32
"""Prompts whose mean tells what an answer has whatever is asked."""


def answer_tree(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], values: Sequence[str]) -> AnswerTree:
    """Tokenises the answers, with the tokens that end a turn. ``row``: with any prompt."""
    rows = [{"prompt": row["prompt"], "answer": [{"role": "assistant", "content": value}]} for value in values]
    encoded = encode(tokenizer, rows, len(rows), silent, ("answer",))
    return AnswerTree({value: tuple(of_value["answer_ids"]) for value, of_value in zip(values, encoded, strict=True)})


def choose_for_rows(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Ids],
    choosing: Choosing,
    *,
    calibrated: bool,
) -> list[tuple[str, Ids]]:
    """The answer to each row's prompt, as text and as tokens. No rows, no answers."""
    if not rows:
        return []
    tree = answer_tree(tokenizer, rows[0], choosing.values)
    keys = [row["prompt_key"] for row in rows]
    supports = [choosing.supports.get(key, {}) for key in keys]
    accepted = [choosing.accepted.get(key, "") for key in keys] if calibrated else None
    chosen = choose(model, tokenizer, prompts, tree, supports, accepted)
    return [(text, list(tree.tokens[text])) for text in chosen]


@torch.no_grad()
def choose(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    tree: AnswerTree,
    supports: Sequence[Mapping[str, float]],
    accepted: Sequence[str] | None = None,
) -> list[str]:
    """Chooses an answer for each prompt. ``supports``: of each prompt; ``accepted``: the accepted answer to each, where it
    is known, by which scores are calibrated: they are taken less their mean over the first prompts, and as far as they tell
    those answers. The model is in evaluation mode."""
    chosen, trust = ["" for _ in prompts], 1.0
    waiting = {tuple(tree.tokens): list(range(len(prompts)))}
    while waiting:
        answers, numbers = waiting.popitem()
        parting = tree.parting(answers)
        asked = [] if accepted is None else [*prompts[:MOST_MEANT]]
        scores = _scores(model, tokenizer, [*asked, *(prompts[number] for number in numbers)], parting)
        first = scores[: len(asked)]
        means = {option: fmean(of[option] for of in first) for option in parting.options} if asked else {}
        if accepted and len(answers) == len(tree.tokens):
            trust = fit_trust(parting, [*zip(scores, supports, accepted, strict=False)][: len(asked)], means)
        for number, of_prompt in zip(numbers, scores[len(asked) :], strict=True):
            best = next(iter(choose_option(parting, of_prompt, means, supports[number], trust)))
            left = parting.options[best]
            if len(left) == 1:
                chosen[number] = left[0]
            else:
                waiting.setdefault(left, []).append(number)
    return chosen


def _scores(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    parting: Parting,
) -> list[Scores]:
    """Looks at the model once for each prompt: the log probability of every option."""
    texts = [[*prompt, *parting.prefix] for prompt in prompts]
    options = list(parting.options)
    scores: list[Scores] = [{} for _ in texts]
    for batch in batches([len(text) for text in texts], TOKENS_PER_BATCH[loading.device().type]):
        ids, mask = pad_left([texts[number] for number in batch], tokenizer.pad_token_id)  # (B, T)
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        output = model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False, logits_to_keep=1)
        # (B, V) to (B, options)
        of_options = torch.log_softmax(output.logits[:, -1].float(), -1)[:, options]
        for number, values in zip(batch, of_options.tolist(), strict=True):
            scores[number] = dict(zip(options, values, strict=True))
    return scores
