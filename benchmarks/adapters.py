"""Measures what many versions of one base model cost: each a llama.cpp process, or all as adapters of one.

    .venv/bin/python benchmarks/adapters.py --versions 10

The adapters have the size that ``auto`` trains on SmolLM2, and random weights. Memory is what the processes do not share
with others (PSS). A switch is one token more or less: prompts that nothing has computed before, asked of one version again
and again, or of another one each time. The mixed load asks all versions in turn, four at once.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from jobs_site import Site, set_up

if TYPE_CHECKING:
    from rl.models import Agent, Deployment, ModelVersion
    from rl.serving.upstreams import Upstream

TOP_LAYERS = range(20, 30)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ASKED = 40
RUN = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", type=int, default=10)
    parser.add_argument("--model", default="smollm2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        set_up(folder)
        Site(folder / "asking").manage("migrate", "--verbosity", "0")
        print(json.dumps(measure(options.model, options.versions)))


def measure(model: str, count: int) -> dict[str, Any]:
    from rl.base.records import silent
    from rl.lm.base_models import resolve
    from rl.models import Agent
    from rl.serving.deploy import deploy

    agent = Agent.objects.create(name="job", base_model=model)
    versions = make_versions(agent, resolve(model, silent), count)
    figures: dict[str, Any] = {}
    try:
        for target in ("adapter", "llama_cpp"):
            began = time.monotonic()
            one = [deploy(agent, versions[0], target=target)]
            figures |= {f"{target}_one_mb": _megabytes(agent)}
            rows = one + [deploy(agent, version, target=target) for version in versions[1:]]
            figures |= {f"{target}_deploy_seconds": round((time.monotonic() - began) / count, 1)}
            figures |= {f"{target}_all_mb": _megabytes(agent)}
            figures |= {f"{target}_{name}": of for name, of in _ask(rows).items()}
            _end(agent)
    finally:
        _end(agent)
    return {"versions": count, **figures}


def make_versions(agent: "Agent", base: str, count: int) -> "list[ModelVersion]":
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from rl.models import ModelVersion
    from rl.versions.versions import version_directory

    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    config = LoraConfig(r=16, lora_alpha=32, target_modules=LINEAR, layers_to_transform=list(TOP_LAYERS))
    agent.keep_versions = count
    agent.save()
    versions = []
    for number in range(1, count + 1):
        torch.manual_seed(number)
        adapted = get_peft_model(model, config)
        for name, values in adapted.named_parameters():
            if "lora_B" in name:
                values.data.normal_(0, 0.05)
        version = ModelVersion.objects.create(
            agent=agent, name=f"v{number}", base_model=base, feedback_count=1, stage="exported"
        )
        adapted.save_pretrained(version_directory(version) / "adapter")
        model = adapted.unload()
        versions.append(version)
    return versions


def _ask(rows: "Sequence[Deployment]") -> dict[str, float]:
    from rl.models import Deployment
    from rl.serving.upstreams import upstream_of

    # a deployment that is added moves those before it
    reached = [upstream_of(Deployment.objects.get(pk=row.pk)) for row in rows]
    seconds_of(reached[0], "warm", 1)
    same, other = [], []
    for number in range(ASKED):
        # by turns, so that both meet what else the machine does; the first one of a run of five may be a switch back
        if number % RUN:
            same.append(seconds_of(reached[0], f"same {number}", 1))
        else:
            other += [
                seconds_of(reached[(number + one) % len(reached)], f"other {number + one}", 1) for one in range(RUN)
            ]
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: seconds_of(reached[number % len(reached)], f"mixed {number}", 16), range(ASKED)))
    mixed = time.monotonic() - began
    figures = {"same_ms": 1000 * median(same), "other_ms": 1000 * median(other), "mixed_seconds": mixed}
    return {name: round(value, 1) for name, value in figures.items()}


def seconds_of(reached: "Upstream", text: str, tokens: int) -> float:
    import httpx

    asked = {"messages": [{"role": "user", "content": f"Say something of {text}."}], "max_tokens": tokens}
    body = {**asked, "temperature": 0, "cache_prompt": False, **reached.fields}
    began = time.monotonic()
    url, headers = f"{reached.base_url}/chat/completions", dict(reached.headers)
    httpx.post(url, json=body, headers=headers, timeout=120).raise_for_status()
    return time.monotonic() - began


def _megabytes(agent: "Agent") -> int:
    import psutil

    pids = agent.deployments.exclude(pid=None).values_list("pid", flat=True)
    return round(sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / 1e6)


def _end(agent: "Agent") -> None:
    from rl.serving.withdrawal import take_down

    for row in agent.deployments.order_by("version"):
        take_down(row)


if __name__ == "__main__":
    main()
