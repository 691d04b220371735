from dataclasses import asdict

import pytest

from rl.base.errors import UsageError
from rl.dataset_builder import DataOptions


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pair_type": "widgets"}, "pair_type must be one of widget, fixture, preference, both"),
        ({"val_split": 1.0}, "val_split must be a number from 0 to 0.9"),
        ({"val_split": float("nan")}, "val_split must be a number"),
        ({"min_confidence": 0.4}, "min_confidence must be a number from 0.5 to 1"),
        ({"min_samples": 0}, "min_samples must be a number from 1"),
        ({"min_samples": True}, "min_samples must be a number"),
        ({"min_samples": "10"}, "min_samples must be a number"),
        ({"max_pairs_per_question": 1.5}, "max_pairs_per_question must be a whole number"),
    ],
)
def test_a_value_out_of_range_is_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        DataOptions(**wrong)


def test_options_survive_the_way_through_json():
    options = DataOptions(pair_type="both", val_split=0.1)
    assert DataOptions(**asdict(options)) == options
