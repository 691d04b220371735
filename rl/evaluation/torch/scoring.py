"""How likely each model finds both answers of held-out pairs: the raw material of preference accuracy.

A score is log p(answer | prompt) in nats, of the whole answer; a pair is ranked rightly where that of the chosen one is
larger. Lists of answers have 2N places for N pairs: all chosen ones, then all rejected ones. And a judge that learns from
people's labels, and compares answers that it has no label of."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import add_fused_lm_head

from rl.base.errors import TrainingFailed
from rl.base.manner import ASKED_PLAINLY, Manner
from rl.base.measurements import PairScore
from rl.base.messages import tools_of
from rl.base.records import Report
from rl.evaluation.judges import Duel, Judged
from rl.evaluation.torch.answering import WhileLoaded
from rl.judge.features import Reader
from rl.judge.labels import Answers, opinions_of, text_of
from rl.judge.raters import cross_fit_by_trust
from rl.lm import loading
from rl.lm.encoding import SINGLE, encode
from rl.lm.kept_scores import kept_log_probs
from rl.lm.lengths import EncodedRow, LengthCount
from rl.lm.log_probs import PromptAndAnswer, use_compact_head
from rl.lm.model_path import is_adapter, lowest_trained_layer
from rl.lm.resources import resource_advice
from rl.lm.token_tree.sharing import shared_tokens
from rl.lm.trunk import kept_trunk


def score_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    pairs: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    report: Report,
    precision: str = "auto",
    manner: Manner = ASKED_PLAINLY,
    also: WhileLoaded | None = None,
) -> dict[str, list[PairScore | None]]:
    """Scores the same pairs under each adapter or whole model, None being the base model, which is loaded once.

    A pair is a mapping with ``prompt``, ``chosen``, ``rejected`` (lists of messages) and ``prompt_key``, and with
    ``rejected_prompt`` where the rejected answer is one to another prompt; each list has one place for each pair, in their
    order. Answers are cut at ``max_length`` tokens as in training, and a pair with a prompt that is that long alone has None
    for a score. ``also`` is called for each model while it is loaded. Raises UsageError for a base model that is none, and
    TrainingFailed for a model or an adapter that cannot be loaded."""
    tokenizer, model = loading.open_model(base_model, report, precision=precision, manner=manner)
    use_compact_head()
    add_fused_lm_head(model)
    answers = _answers(tokenizer, pairs, min(max_length, loading.context_length(model.config)), report)
    scores: dict[str, list[float | None]] = {}
    with ExitStack() as block:
        folder = Path(block.enter_context(TemporaryDirectory()))
        block.enter_context(kept_trunk(model, _shared_layers(adapters), folder / "states"))
        block.enter_context(shared_tokens(model, report))
        for name, adapter in adapters.items():
            report("stage", {"name": f"scoring {name}"})
            with resource_advice(), loading.with_weights(model, adapter) as adapted, ExitStack() as of_whole:
                if adapted is not model and isinstance(adapted, PreTrainedModel):
                    add_fused_lm_head(adapted)
                    of_whole.enter_context(shared_tokens(adapted, report))
                fitting = [_sequence(row) for row in answers if row is not None]
                values = iter(kept_log_probs(adapted, fitting, loading.autocast_dtype(precision), report))
                scores[name] = [None if row is None else next(values) for row in answers]
                if also:
                    also(name, tokenizer, model, adapted)
    return {name: _pair_up(pairs, answers, values) for name, values in scores.items()}


def _shared_layers(adapters: Mapping[str, Path | None]) -> int:
    """From the lowest, those that all adapters leave as they are in the base model: they run once for each text."""
    weights = [path for path in adapters.values() if path is not None and is_adapter(path)]
    return min(map(lowest_trained_layer, weights), default=0) if len(adapters) > 1 else 0


def encoded_pairs(
    base_model: str,
    pairs: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    report: Report,
    manner: Manner = ASKED_PLAINLY,
) -> list[tuple[PromptAndAnswer, PromptAndAnswer] | None]:
    """The token ids that ``score_versions`` scores: the chosen and the rejected answer, each with its prompt; None where the
    prompt leaves no room. Loads no model."""
    loading.quiet()
    context = loading.context_length(loading.read_config(base_model, TrainingFailed))
    rows = _answers(loading.load_tokenizer(base_model, manner), pairs, min(max_length, context), report)
    return [
        None if chosen is None or rejected is None else (_sequence(chosen), _sequence(rejected))
        for chosen, rejected in zip(rows[: len(pairs)], rows[len(pairs) :], strict=True)
    ]


def _sequence(row: EncodedRow) -> PromptAndAnswer:
    return row["prompt_ids"], row["completion_ids"]


def _answers(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Mapping[str, Any]], most_tokens: int, report: Report
) -> list[EncodedRow | None]:
    """First all chosen ones, then all rejected ones; None where the prompt leaves no room."""
    singles = [{**tools_of(pair), "prompt": pair["prompt"], "completion": pair["chosen"]} for pair in pairs]
    singles += [
        {**tools_of(pair), "prompt": pair.get("rejected_prompt", pair["prompt"]), "completion": pair["rejected"]}
        for pair in pairs
    ]
    lengths = LengthCount()
    rows = encode(tokenizer, singles, len(singles), report, SINGLE)
    encoded = [lengths.fit(row, most_tokens) for row in rows]
    too_long = sum(None in both for both in zip(encoded[: len(pairs)], encoded[len(pairs) :], strict=True))
    if too_long:
        report("log", {"text": f"{too_long} of {len(pairs)} held-out pairs have too long a prompt; not scored"})
    return encoded


def _pair_up(
    pairs: Sequence[Mapping[str, Any]], answers: Sequence[EncodedRow | None], values: Sequence[float | None]
) -> list[PairScore | None]:
    tokens = [0 if row is None else len(row["completion_ids"]) for row in answers[: len(pairs)]]
    sides = zip(values[: len(pairs)], values[len(pairs) :], tokens, strict=True)
    return [
        None if chosen is None or rejected is None else PairScore(pair["prompt_key"], chosen, rejected, count)
        for pair, (chosen, rejected, count) in zip(pairs, sides, strict=True)
    ]


def judge(
    base_model: str,
    labelled: Iterable[Mapping[str, Any]],
    contrasts: Sequence[Mapping[str, Any]],
    duels: Sequence[Duel],
    *,
    max_length: int,
    report: Report,
) -> Judged | None:
    """Every comparison by heads that have seen no label of its prompt; both answers of a contrast are to prompts of one
    fold. None where the labels are too few to learn from. Loads the base model, and raises what that raises."""
    answers = Answers()
    opinions = opinions_of(labelled, answers)
    known = [
        (
            answers.add(row["prompt"], text_of(row["chosen"])),
            answers.add(row.get("rejected_prompt") or row["prompt"], text_of(row["rejected"])),
        )
        for row in contrasts
    ]
    fresh = [(answers.add(duel.prompt, duel.first), answers.add(duel.prompt, duel.second)) for duel in duels]
    if not opinions:
        return None
    features = Reader(base_model, max_length=max_length, report=report).features(answers.conversations, report)
    report("stage", {"name": "judging the answers"})
    judge = cross_fit_by_trust(features, opinions)
    if judge is None:
        return None

    keys = [row["prompt_key"] for row in contrasts]
    checks = [(key, judge.preference(features, *numbers, key)) for numbers, key in zip(known, keys, strict=True)]
    compared = [
        judge.preference(features, *numbers, duel.prompt_key) for numbers, duel in zip(fresh, duels, strict=True)
    ]
    return Judged(checks, compared, len(opinions))
