"""What is frozen of feedback of all kinds, byte for byte: faster code must not change it."""

import hashlib
import json
from pathlib import Path

import pytest
from django.db import connection

from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.accepted_answers import FOLDS, IMITATED, KIND, TESTED
from rl.models import Feedback, TrainingSet
from tests.dataset_builder.frozen.varied_feedback import make_agent

pytestmark = pytest.mark.database


FIGURES = Path(__file__).with_name("same_bytes.json")
AGENTS = {
    "varied": {},
    "capped": {"rater_cap": 0.3},
    "proposed": {"auto_label_threshold": 0.8},
    "tools": {},
    "widgets": {"pair_type": "both"},
}
METHODS = ("dpo", "kto", "mpo", "reward_model", "grpo", "reward", "prompts")


def digest(frozen: TrainingSet) -> str:
    """Of its files, but for the last digits of means, its members and what it marks; not of figures that came later."""
    later = {"scores", KIND, FOLDS, TESTED, IMITATED}
    stats = {name: value for name, value in frozen.stats.items() if name not in later}
    scores = {name: round(value, 12) for name, value in frozen.stats["scores"].items()}
    members = sorted(str(trace) for trace in frozen.members.values_list("trace_id", flat=True))
    marked = sorted(Feedback.objects.filter(training_set=frozen).values_list("pk", flat=True))
    counts = [frozen.content_hash, frozen.train_rows, frozen.heldout_rows, frozen.feedback_count]
    whole = hashlib.sha256(json.dumps([*counts, stats, scores, members, marked], sort_keys=True).encode())
    for name in ("train.jsonl", "heldout.jsonl", "feedback.ids"):
        whole.update((frozen.directory / name).read_bytes())
    return whole.hexdigest()


@pytest.mark.django_db
@pytest.mark.parametrize("name", AGENTS)
def test_every_method_freezes_the_bytes_that_it_always_froze(name, data_dir):
    agent = make_agent(name, **AGENTS[name])
    digests = {}
    for method in METHODS:
        options = DataOptions(
            pair_type=agent.pair_type, min_samples=1, val_split=0.2, max_pairs_per_question=2, min_confidence=0.6
        )
        frozen = freeze(agent, options, method=method)
        digests[method] = digest(frozen)
        frozen.delete()
    assert digests == json.loads(FIGURES.read_text())[connection.vendor][name]
