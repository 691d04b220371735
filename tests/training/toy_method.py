"""A method as short as one can be: it imitates the better answers, one row to a step."""

import time
from collections.abc import Mapping
from typing import Any

import torch
from peft import PeftModel, get_peft_model

from rl.base.records import Report, TrainingResult
from rl.config.training_job import TrainingJob
from rl.training import fitting
from rl.training.imitating import load_untrained
from rl.training.preparing import encoded_rows, prepare


def train(job: TrainingJob, report: Report) -> TrainingResult:
    started = time.monotonic()
    with prepare(job, report) as start:
        rows, lengths = encoded_rows(start, "toy")
        base = load_untrained(start)
        model = get_peft_model(base, fitting.lora(base, job.config))
        optimizer = torch.optim.AdamW(model.parameters(), lr=job.config.learning_rate)
        history = []
        for step in range(int(job.config.max_steps)):
            history.append({"loss": _imitate(model, optimizer, rows[step % len(rows)])})
            report("step", {"step": step + 1, "total_steps": job.config.max_steps, "metrics": history[-1]})
        weights = fitting.publish_weights(model, start)
    return fitting.summary(
        weights, len(history), history, {"dropped_rows": lengths.dropped}, time.monotonic() - started
    )


def _imitate(model: PeftModel, optimizer: torch.optim.Optimizer, row: Mapping[str, Any]) -> float:
    prompt, answer = row["prompt_ids"], row["chosen_ids"]
    ids = torch.tensor([[*prompt, *answer]], device=model.device)  # (1, tokens)
    labels = ids.clone()
    labels[:, : len(prompt)] = -100
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())
