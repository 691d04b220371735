"""Does an agent learn from its environment? Held-out tasks solved before and after multi-turn GRPO, by a tiny model.

.venv/bin/python benchmarks/agents.py [--kinds code search] [--seeds 1 2 3] [--demonstrations 600] [--steps 25]

The model has two layers and starts from random weights. It imitates demonstrations first: those of somebody who can use the
tools, and gives up on most tasks of two kinds in three. ``manage.py train_agent`` does the rest. What is compared is the
warm-started model and the trained one, on the same held-out tasks, by the likeliest tokens. Fails where one gains less than
25 points or takes more than ten minutes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
import yaml  # noqa: E402
from agent_worlds import World, world  # noqa: E402
from tokenizers import pre_tokenizers, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from rl.environments.crew import crew  # noqa: E402
from rl.lm.chat.format import ChatFormat  # noqa: E402
from rl.lm.lengths import TokenLimits  # noqa: E402
from rl.lm.tiny_model import byte_pairs  # noqa: E402
from rl.training.agent.episodes import Play, WorldStage  # noqa: E402
from rl.training.agent.train import by_heart  # noqa: E402

LEAST_GAIN, MOST_SECONDS = 25.0, 600.0
WIDTH, LAYERS, CONTEXT, TURN = 128, 2, 512, 48
TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\nTools:' }}{% for tool in tools %}{{ ' ' + tool.function.name }}{% endfor %}\
{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' + \
(call.function.arguments | tojson) + '}</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=["code", "search"], default=["code", "search"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--demonstrations", type=int, default=600)
    parser.add_argument("--imitation-steps", type=int, default=600)
    parser.add_argument("--steps", type=int, default=25, help="of GRPO")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    options = parser.parse_args()
    print("| tasks | seed | before | after | minutes |\n|---|---|---|---|---|", flush=True)
    worst, slowest = 100.0, 0.0
    for kind in options.kinds:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                started = time.monotonic()
                before, after = _train(kind, seed, options, Path(folder))
                seconds = time.monotonic() - started
            gain = 100 * (after - before)
            worst, slowest = min(worst, gain), max(slowest, seconds)
            print(f"| `{kind}` | {seed} | {before:.0%} | {after:.0%} | {seconds / 60:.1f} |", flush=True)
    good = worst >= LEAST_GAIN and slowest <= MOST_SECONDS
    print(
        f"least gain {worst:+.0f} points, longest {slowest / 60:.1f} minutes: {'as promised' if good else 'NOT as promised'}"
    )
    return 0 if good else 1


def _train(kind: str, seed: int, options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """Shares of the held-out tasks that the warm-started model and the trained one solve."""
    task_world = world(kind, seed, options.demonstrations, train=200, held_out=64)
    task_world.write(folder / "tasks")
    _warm_start(task_world, seed, options.imitation_steps, folder / "model")
    (folder / "agent.yaml").write_text(
        yaml.safe_dump(_configuration(task_world, seed, options, folder)), encoding="utf-8"
    )
    _manage(folder, "migrate", "--verbosity", "0")
    document = json.loads(_manage(folder, "train_agent", "--config", str(folder / "agent.yaml"), "--json"))
    models = document["evaluation"]["models"]
    return models["base"]["reward"]["value"], models["new"]["reward"]["value"]


def _configuration(task_world: World, seed: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return {
        "model": {"name": str(folder / "model"), "dtype": "float32"},
        "policy": {"max_new_tokens": TURN, "temperature": 1.0},
        "env": {"type": task_world.settings.type, **task_world.settings.options},
        "rollout": {"num_episodes_per_iter": 64, "num_generations": 8},
        "train": {
            "num_iters": options.steps,
            "lr": options.learning_rate,
            "grad_clip": 1.0,
            "seed": seed,
            "beta": 0.0,
            "lora_r": 32,
            "lora_alpha": 64,
            "lora_dropout": 0.0,
            "max_length": CONTEXT,
            "loss_type": "grpo",
        },
        "eval": {"eval_interval": 0},
        "data": {"dataset_dir": str(folder / "tasks")},
    }


def _manage(folder: Path, *arguments: str) -> str:
    settings = {"DATA_DIR": str(folder / "data"), "SECRET_KEY": "benchmark", "DEBUG": "1", "ENV_FILE": os.devnull}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    process = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}: exit code {process.returncode}\n{process.stderr[-2000:]}")
    return process.stdout


# --- the model that it starts from -------------------------------------------------------------------------------------


def _warm_start(task_world: World, seed: int, steps: int, folder: Path) -> None:
    torch.manual_seed(seed)
    tokenizer = _tokenizer(task_world.texts)
    model = _model(tokenizer)
    _imitate(model, _play_demonstrations(task_world, tokenizer), steps, seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    bpe = byte_pairs()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(
        [*texts, *(["<tool_call></tool_call>system user assistant tool\nTools: exec_code search"] * 9)], trainer
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


def _model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def _play_demonstrations(task_world: World, tokenizer: PreTrainedTokenizerFast) -> list[Play]:
    with crew(task_world.settings, 0) as world_of_all:
        stage = WorldStage(world_of_all, ChatFormat(tokenizer), TokenLimits(CONTEXT, CONTEXT, TURN))
        tasks, scripts = zip(*task_world.demonstrations, strict=True)
        return stage.play(tasks, partial(by_heart, stage, scripts))


def _imitate(model: Qwen2ForCausalLM, plays: list[Play], steps: int, seed: int, most: float = 3e-3) -> None:
    draw = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=most, weight_decay=0.0)
    for step in range(1, steps + 1):
        batch = draw.sample(plays, 16)
        width = max(len(play.context) for play in batch)
        ids, labels = torch.zeros(16, width, dtype=torch.long), torch.full((16, width), -100)
        for row, play in enumerate(batch):
            length, own = len(play.context), torch.tensor([0] * len(play.prompt_ids) + play.own, dtype=torch.bool)
            ids[row, :length] = torch.tensor(play.context)
            labels[row, :length][own] = ids[row, :length][own]
        for group in optimizer.param_groups:
            group["lr"] = most * min(1.0, step / 20) * (1 - 0.9 * step / steps)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"{'':8} imitated {len(plays)} demonstrations, loss {loss.item():.3f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
