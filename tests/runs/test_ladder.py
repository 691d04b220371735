"""Runs that do not fit into memory, with real trainers whose steps say that they do not."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from rl.base.errors import OutOfMemory, TrainingFailed
from rl.base.records import silent
from rl.config import TrainingConfig, preset
from rl.runs.ladder import smaller, train_within_memory
from tests.training.conftest import Listener, job, message, same_weights

pytestmark = pytest.mark.learn

torch = pytest.importorskip("torch")
MESSAGES = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17.99 GB)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
]
Fits = Callable[[TrainingConfig, int], bool]


def shape(config: TrainingConfig) -> tuple[int, int, bool]:
    return int(config.batch_size), int(config.gradient_accumulation), config.activation_checkpointing


def rungs(config: TrainingConfig, least: int = 1) -> list[tuple[int, int, bool]]:
    return [shape(one) for one in smaller(config, least)]


def test_each_step_down_keeps_the_rows_of_an_optimiser_step():
    config = preset("default")
    assert rungs(config) == [(2, 8, False), (1, 16, False), (1, 16, True)]
    assert rungs(config, least=2) == [(2, 8, False), (2, 8, True)]
    odd = config.with_overrides({"batch_size": 6, "gradient_accumulation": 1})
    assert rungs(odd) == [(3, 2, False), (1, 6, False), (1, 6, True)]
    assert rungs(config.with_overrides({"batch_size": 1, "activation_checkpointing": True})) == []


def test_ppo_cuts_its_mini_batches_into_passes():
    steps = list(smaller(preset("default", "ppo")))
    assert [one.rows_a_pass for one in steps] == [2, 1, 1]
    assert {(one.batch_size, one.mini_batch_size) for one in steps} == {(8, 4)}


@pytest.fixture
def tight(monkeypatch) -> Callable[[type, Fits, Exception], list[int]]:
    """Lets the trainer's steps fail unless ``fits`` says that they fit; the list gets the steps that did."""

    def limit(trainer: type, fits: Fits, error: Exception) -> list[int]:
        original, done = trainer.training_step, []

        def training_step(self, *arguments, **options):
            args = self.args
            found = TrainingConfig(
                batch_size=args.per_device_train_batch_size,
                gradient_accumulation=args.gradient_accumulation_steps,
                activation_checkpointing=args.gradient_checkpointing,
            )
            if not fits(found, self.state.global_step):
                raise type(error)(*error.args)  # the same object would keep its traceback, and so the model
            done.append(self.state.global_step)
            return original(self, *arguments, **options)

        monkeypatch.setattr(trainer, "training_step", training_step)
        return done

    return limit


@pytest.mark.parametrize("error", MESSAGES, ids=lambda error: str(error)[:12] or "MemoryError")
def test_a_run_that_does_not_fit_trains_in_smaller_passes(tiny_base, tmp_path, tight, error):
    from rl.training import dpo

    asked = job(tiny_base, tmp_path / "asked", max_steps=1)
    tight(dpo._Trainer, lambda config, step: config.batch_size <= 2, error)
    listener = Listener()
    result = train_within_memory(dpo.train, asked, listener, 1)
    assert result.changed == {"batch_size": 2, "gradient_accumulation": 2}
    assert asked.config.batch_size == 4
    assert "out of memory: once more with batch_size 2, gradient_accumulation 2" in listener.log
    metrics = [values["metrics"] for event, values in listener.events if event == "step" and values["metrics"]]
    assert (metrics[-1]["batch_size"], metrics[-1]["gradient_accumulation"]) == (2, 2)
    assert result.steps == 1
    assert json.loads((asked.output_dir / "memory.json").read_text()) == {"steps_down": 1}


def test_the_smaller_passes_give_what_a_run_gives_that_asked_for_them(tiny_base, tmp_path, tight):
    from rl.training import dpo

    tight(dpo._Trainer, lambda config, step: config.batch_size <= 2, MESSAGES[0])
    fell = train_within_memory(dpo.train, job(tiny_base, tmp_path / "fell", max_steps=2), silent, 1)
    small = job(tiny_base, tmp_path / "small", max_steps=2, batch_size=2, gradient_accumulation=2)
    asked = train_within_memory(dpo.train, small, silent, 1)
    assert same_weights(fell, asked)
    assert asked.changed == {}


def test_a_step_that_runs_out_late_goes_on_from_the_checkpoint_one_rung_at_a_time(tiny_base, tmp_path, tight):
    from rl.training import dpo

    done = tight(dpo._Trainer, lambda config, step: step < 3 or config.activation_checkpointing, MESSAGES[0])
    listener = Listener()
    result = train_within_memory(dpo.train, job(tiny_base, tmp_path, save_steps=2), listener, 1)
    assert result.changed == {"batch_size": 1, "gradient_accumulation": 4, "activation_checkpointing": True}
    assert listener.log.count("once more") == 3
    assert done.count(0) == 1
    assert result.steps == 6
    assert len(result.history) == 6


def test_the_bottom_of_the_ladder_says_what_is_left_to_do(tiny_base, tmp_path, tight):
    from rl.training import dpo

    tight(dpo._Trainer, lambda config, step: False, MESSAGES[0])
    listener = Listener()
    with pytest.raises(TrainingFailed, match=r"out of memory, with 1 row in a forward pass.*lower max_length \(128\)"):
        train_within_memory(dpo.train, job(tiny_base, tmp_path, batch_size=2), listener, 1)
    assert listener.log.count("once more") == 2


def test_a_later_attempt_begins_where_the_last_one_fitted(tiny_base, tmp_path, tight):
    from rl.training import dpo

    asked = job(tiny_base, tmp_path, epochs=1.0)
    tight(dpo._Trainer, lambda config, step: config.batch_size <= 2, MESSAGES[0])
    train_within_memory(dpo.train, asked, silent, 1)
    again = Listener()
    result = train_within_memory(dpo.train, replace(asked, resume=True), again, 1)
    assert result.changed["batch_size"] == 2
    assert "once more" not in again.log
    fresh = Listener()
    train_within_memory(dpo.train, asked, fresh, 1)
    assert "once more" in fresh.log


def test_kto_keeps_two_rows_in_a_pass(tiny_base, tmp_path, tight):
    from rl.training import kto

    rows = [
        {
            "prompt": [message("user", f"Question {n}?")],
            "completion": [message("assistant", "Yes" if n % 2 else "No")],
            "label": bool(n % 2),
            "prompt_key": str(n),
        }
        for n in range(12)
    ]
    asked = job(tiny_base, tmp_path, rows, max_steps=1)
    tight(kto._Trainer, lambda config, step: config.activation_checkpointing, MESSAGES[0])
    result = train_within_memory(kto.train, asked, silent, 2)
    assert result.changed == {"batch_size": 2, "gradient_accumulation": 2, "activation_checkpointing": True}


def test_a_base_model_that_does_not_fit_is_no_matter_of_smaller_steps(tiny_base, tmp_path, monkeypatch):
    from rl.lm import loading
    from rl.training import dpo

    def refuse(base, dtype):
        raise MESSAGES[0]

    monkeypatch.setattr(loading, "read_model", refuse)
    listener = Listener()
    with pytest.raises(TrainingFailed, match=r"the base model .*tiny does not fit") as caught:
        train_within_memory(dpo.train, job(tiny_base, tmp_path), listener, 1)
    assert not isinstance(caught.value, OutOfMemory)
    assert "once more" not in listener.log


def test_nothing_of_the_attempt_that_failed_stays_in_memory(tiny_base, tmp_path, tight):
    import gc

    from transformers import PreTrainedModel

    from rl.training import dpo

    alive: list[int] = []

    def count(event, values):
        if values.get("name") == "loading the base model":
            alive.append(sum(issubclass(type(one), PreTrainedModel) for one in gc.get_objects()))

    gc.collect()
    tight(dpo._Trainer, lambda config, step: config.batch_size <= 2, MESSAGES[0])
    train_within_memory(dpo.train, job(tiny_base, tmp_path, max_steps=1), count, 1)
    assert alive == [0, 0]
