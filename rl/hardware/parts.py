"""How many seconds each part of a training run takes: what it does, times how fast the machine does it."""

from dataclasses import dataclass, replace
from enum import StrEnum

from rl.config import TrainingConfig
from rl.config.automatic import AnswerTraits, settle_warm_up
from rl.config.methods import Column, Method
from rl.hardware.speed import TIMED_TOKENS, ModelShape, Speed

_ROWS_A_SECOND = 1000
"""Ratings that become rows, are written and tokenised."""
_LOAD_SECONDS, _BYTES_A_SECOND = 0.5, 400e6
"""To load a model: at least, and of its files."""
_EXPORT_SECONDS, _EXPORTED_A_SECOND = 6.0, 25e6
"""To write a GGUF file and check it: at least, and weights. llama.cpp judges by it about as fast as PyTorch."""
ASKED_ON_THE_WAY, MOST_ASKED = 3, 24
"""How often some of the tested prompts are asked within the trainings without them, and how many they are."""


class Part(StrEnum):
    """What a run does, in order; a name that people read."""

    START = "start-up"
    LOADING = "loading the model"
    WEIGHING = "weighing the ratings"
    SAMPLES = "fresh answers to learn from"
    IMITATION = "imitation"
    REFERENCE = "reference"
    FOLDS = "answers to prompts not learned"
    STEPS = "steps"
    EVALUATION = "evaluation"
    FRESH = "fresh answers"
    EXPORT = "export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The rows of a run in tokens, and what it does beside training on them."""

    rows: int
    tokens: float
    """A prompt with an answer has so many, the mean."""
    answer_tokens: float
    """The mean; as many as there may be, where they are generated."""
    longest: float = 0.0
    """Tokens of a prompt with an answer as it is padded in a training pass; 0: the mean."""
    heldout_rows: int = 0
    models: int = 2
    """How many are compared: the new one, the base model, the version in use."""
    asked_prompts: int = 0
    """That all models answer afresh."""
    guarded_prompts: int = 0
    """Those of them whose answers are read once more."""
    judged_answers: int = 0
    """Stored and fresh ones that a judge reads."""
    weighed_rows: int = 0
    """That a judge learns from before the training."""
    asked_tokens: int = 0
    """Most tokens of an answer to them."""
    exports: bool = False
    folds: int = 0
    """Further trainings, each without a part of the tested prompts, which it then answers."""
    tested_prompts: int = 0
    """Those of all parts together."""
    tested_share: float = 0.0
    """Share of the rows that is about them."""


@dataclass(frozen=True, slots=True)
class Seconds:
    work: Workload
    model: ModelShape
    config: TrainingConfig
    method: Method
    speed: Speed

    def parts(self) -> dict[Part, float]:
        return {
            Part.START: self.speed.start + (self.work.rows + self.work.heldout_rows) / _ROWS_A_SECOND,
            Part.LOADING: self._loading(),
            # half of the layers under answers that people rated
            Part.WEIGHING: self.work.weighed_rows * self._sequences * self._forward(self.model.layers) / 2,
            Part.SAMPLES: self._samples(),
            Part.IMITATION: self._imitation(),
            Part.REFERENCE: self._reference() if self._scores_first else 0.0,
            Part.FOLDS: self._folds() if self.work.folds else 0.0,
            Part.STEPS: self._steps() + (0.0 if self._scores_first else self._trunk()),
            Part.EVALUATION: self._evaluation(),
            Part.FRESH: self._fresh_answers(),
            Part.EXPORT: self._export() if self.work.exports else 0.0,
        }

    # --- what is done -------------------------------------------------------------------------------------------------

    def _loading(self) -> float:
        times = 1 + bool(self.work.heldout_rows) + bool(self.work.weighed_rows)  # to train, to measure, to judge
        return times * (_LOAD_SECONDS + 2 * self.model.parameters / _BYTES_A_SECOND)

    def _samples(self) -> float:
        """Answers that a judge ranks for further pairs: half of the layers under them."""
        prompts = self.config.rows_learned(self.work.rows) - self.work.rows
        made = prompts * int(getattr(self.config, "fresh_answers", 0))
        return made * (self._generation(self.work.answer_tokens) + self._forward(self.model.layers) / 2)

    def _imitation(self) -> float:
        """One answer to a row, through all layers."""
        if not self.config.sft_epochs:
            return 0.0
        passes = settle_warm_up(self.config, self.work.rows, self.model.hidden_size, AnswerTraits()).epochs
        return passes * self._answers * (self._forward(self._below) + self._training(self._trained))

    def _reference(self) -> float:
        """Scores that are computed once a row; the states of the layers that are not trained come with them."""
        passes = self.method.work.once / 2
        return self._answers * self._sequences * passes * self._forward(self.model.layers)

    def _trunk(self) -> float:
        """States that are computed in the first pass over the rows."""
        if not self._keeps_trunk:
            return 0.0
        return min(self._answers, self._trained_rows) * self._sequences * self._tokens * self._below * self._layer

    def _steps(self) -> float:
        method, passes = self.method.work, getattr(self.config, self.method.work.passes, 1)
        flops = method.flops - (method.once if self._scores_first else 0)
        flops += method.flops_a_pass * getattr(self.config, method.passes, 0)
        flops += 2 * bool(self.config.activation_checkpointing)
        # units of a forward and backward pass (4) with an adapter, and of forward passes (2)
        trained = passes if method.flops_a_pass else 1
        forward = max(0.0, flops - 4 * trained) / 2 + (passes if self.config.full else 0)
        below = 0 if self._keeps_trunk else self._below
        row = trained * (self._training(self._trained, self._padded) + below * self._padded * self._layer)
        row += forward * self._forward(self._trained + below, self._padded)
        return self._trained_rows * self._sequences * (row + self._generation(self._generated))

    def _folds(self) -> float:
        """As the run's own training, on the rows of the other parts; some prompts are asked on the way."""
        rows = round(self.work.rows * (1 - self.work.tested_share / self.work.folds))
        alone = replace(self, work=replace(self.work, rows=max(1, rows)))
        asked = self.work.tested_prompts + ASKED_ON_THE_WAY * min(MOST_ASKED, self.work.tested_prompts)
        return self.work.folds * (alone._steps() + alone._trunk()) + asked * self._generation(self.work.answer_tokens)

    def _evaluation(self) -> float:
        """Pairs are scored, prompts answered, tasks played."""
        rows, rule = self.work.heldout_rows, self.method.rows_with(self.config)
        if rule.has_answers:
            answers = 1 if rule.optional or rule.names(Column.FLAG) else 2
            return rows * answers * self.work.models * self._forward(self.model.layers)
        return rows * self.work.models * self._generation(self.work.answer_tokens)

    def _fresh_answers(self) -> float:
        """Answers of all models; how far the new one is from its base: both read some of the answers once more; and half of
        the layers under whatever a judge learns from and compares."""
        prompts, most = self.work.asked_prompts, self.work.asked_tokens
        tokens = self.work.tokens - self.work.answer_tokens + most
        read = self._tokens_forward(self.model.layers, tokens, most)
        judged = self.work.judged_answers * self._forward(self.model.layers) / 2
        return prompts * self.work.models * self._generation(most) + 2 * self.work.guarded_prompts * read + judged

    def _export(self) -> float:
        judged = 2 * min(self.work.heldout_rows, 200) if self.method.rows.measure == "preference" else 0
        made = _EXPORT_SECONDS + self.model.parameters / _EXPORTED_A_SECOND
        return made + judged * self._forward(self.model.layers)

    # --- how often ----------------------------------------------------------------------------------------------------

    @property
    def _answers(self) -> float:
        return self.config.rows_learned(self.work.rows) * getattr(self.config, self.method.work.answers, 1)

    @property
    def _trained_rows(self) -> float:
        steps = self.config.steps(self.work.rows)
        return steps * self.config.rows_a_step if self.config.max_steps else self._answers * self.config.epochs

    @property
    def _sequences(self) -> int:
        return self.method.work.sequences

    @property
    def _generated(self) -> float:
        """Tokens of an answer that is made while training."""
        makes = self.method.generates_with(self.config) or self.method.rows.of_tasks
        return self.work.answer_tokens if makes else 0.0

    @property
    def _scores_first(self) -> bool:
        return bool(self.method.work.once) and (self.config.epochs > 1 or self.config.full)

    # --- layers -------------------------------------------------------------------------------------------------------

    @property
    def _trained(self) -> int:
        """Layers, from the top."""
        return min(int(self.config.train_layers) or self.model.layers, self.model.layers)

    @property
    def _below(self) -> int:
        return self.model.layers - self._trained

    @property
    def _keeps_trunk(self) -> bool:
        return not self.config.full and not self.config.activation_checkpointing

    # --- seconds ------------------------------------------------------------------------------------------------------

    @property
    def _tokens(self) -> float:
        return min(self.work.tokens, self.config.max_length)

    @property
    def _padded(self) -> float:
        return min(self.work.longest or self.work.tokens, self.config.max_length)

    @property
    def _predicted(self) -> float:
        """Tokens of an answer at which the head runs."""
        return min(self.work.answer_tokens, self._tokens)

    @property
    def _layer(self) -> float:
        return self.speed.forward * self._longer(self._tokens)

    def _longer(self, tokens: float) -> float:
        """Attention takes more for each token of a longer text."""
        return self.model.layer_flops(tokens) / self.model.layer_flops(TIMED_TOKENS)

    def _forward(self, layers: int, tokens: float = 0.0) -> float:
        return self._tokens_forward(layers, tokens or self._tokens, self._predicted)

    def _tokens_forward(self, layers: int, tokens: float, predicted: float) -> float:
        return tokens * layers * self.speed.forward * self._longer(tokens) + predicted * self.speed.head

    def _training(self, layers: int, tokens: float = 0.0) -> float:
        tokens = tokens or self._tokens
        return tokens * layers * self.speed.training * self._longer(tokens) + self._predicted * self.speed.head_training

    def _generation(self, tokens: float) -> float:
        """The prompt is read, then one token after the other is made."""
        if not tokens:
            return 0.0
        prompt = max(0.0, self._tokens - self.work.answer_tokens)
        a_token = self.model.layers * self.speed.generation + self.speed.head
        return prompt * self.model.layers * self._layer + tokens * a_token
