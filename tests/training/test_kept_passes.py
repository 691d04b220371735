from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from rl.base.records import silent
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints
from rl.lm.model_path import ADAPTER
from rl.training import dpo, sft
from tests.training import conftest
from tests.training.conftest import same_weights, stop_and_go_on
from tests.training.test_mpo import mixed_rows
from tests.training.test_sft import job

pytestmark = pytest.mark.learn


def keeping(base: Path, folder: Path, most: int) -> TrainingJob:
    """Eight answers, two steps a pass, five passes."""
    return replace(job(base, folder, mixed_rows(), epochs=5.0, save_steps=1), keep_passes=most)


def kept(job: TrainingJob) -> list[int]:
    return checkpoints.list_passes(job.output_dir)


def test_the_newest_passes_but_the_last_keep_their_adapters_and_training_is_what_it_is_without(
    tiny_base: Path, tmp_path: Path
):
    plain = sft.train(keeping(tiny_base, tmp_path / "plain", 0), silent)
    with_passes = keeping(tiny_base, tmp_path / "kept", 2)
    result = sft.train(with_passes, silent)
    assert same_weights(plain, result)
    assert (kept(with_passes), result.steps) == ([6, 8], 10)
    folders = [checkpoints.pass_folder(with_passes.output_dir, step) / ADAPTER for step in (6, 8)]
    first, second, last = (load_file(folder / "adapter_model.safetensors") for folder in (*folders, result.weights_dir))
    assert first.keys() == second.keys() == last.keys()
    assert all(
        any((one[name] != other[name]).any() for name in last) for one, other in ((first, second), (second, last))
    )


@pytest.mark.parametrize("step", [5, 6])
def test_a_training_that_was_stopped_keeps_the_same_ones(tiny_base: Path, tmp_path: Path, step: int):
    whole = keeping(tiny_base, tmp_path / "whole", 3)
    sft.train(whole, silent)
    stopped = keeping(tiny_base, tmp_path / "stopped", 3)
    stop_and_go_on(sft.train, stopped, step=step)
    assert kept(whole) == kept(stopped) == [4, 6, 8]
    for number in kept(whole):
        left, right = (
            load_file(checkpoints.pass_folder(one.output_dir, number) / ADAPTER / "adapter_model.safetensors")
            for one in (whole, stopped)
        )
        assert all((left[name] == right[name]).all() for name in left)


def test_preferences_keep_theirs_too(tiny_base: Path, tmp_path: Path):
    pairs = replace(conftest.job(tiny_base, tmp_path, conftest.polite_rows(), epochs=3.0), keep_passes=5)
    result = dpo.train(pairs, silent)
    assert kept(pairs) == [result.steps // 3, 2 * result.steps // 3]
