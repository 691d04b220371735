"""A server whose forks need not import the training libraries, which is half of what a training of the tiny model costs.

There is one in each process, so what it imports is said once. Nothing of Django or of ours: each site has its settings.
"""

from __future__ import annotations

import multiprocessing

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "torch",
        "matplotlib.figure",
        "psycopg",
        "transformers.models.qwen2.modeling_qwen2",
        "datasets",
        "peft",
        "trl.trainer.dpo_trainer",
        "trl.trainer.grpo_trainer",
        "trl.trainer.kto_trainer",
        "trl.trainer.reward_trainer",
    ]
)
