"""How much memory and time exports of a model with 1.5 billion weights take, each in a process of its own.

.venv/bin/python benchmarks/export_memory.py [--dir /tmp] [--layers 28] [--with-peft]

The model has random weights in the shapes of Qwen2.5-1.5B, in bfloat16 and in shards of 1 GB, and an adapter on every
linear layer. ``check`` compares the file, which llama.cpp maps into memory, with the model, which is read layer by layer;
its peak is that of the whole process.
``--with-peft`` merges in memory as well, as all that is not plain LoRA has to be.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NEEDED_BYTES = 16e9
MOST_GIGABYTES = 3.0
ROWS = {"merged": ("merged", "f16"), "gguf q8_0": ("gguf", "q8_0"), "gguf q4_k_m": ("gguf", "q4_k_m")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=tempfile.gettempdir())
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--with-peft", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.one:
        return measure(Path(options.dir), *options.one)
    if (free := shutil.disk_usage(options.dir).free) < NEEDED_BYTES * options.layers / 28:
        print(f"{options.dir} has only {free / 1e9:.0f} GB free; give another --dir")
        return 2
    with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-", dir=options.dir) as folder:
        run_child(folder, "build", str(options.layers), "")
        peaks = [show(name, run_child(folder, "export", *row)) for name, row in ROWS.items()]
        if options.with_peft:
            show("merged by PEFT", run_child(folder, "peft", "", ""))
    return 0 if max(peaks) < MOST_GIGABYTES else 1


def run_child(folder: str, *what: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--dir", folder, "--one", *what]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(name: str, figures: dict[str, Any]) -> float:
    line = f"{name:<15} making {figures['making_s']:6.0f} s {figures['making_gb']:6.2f} GB"
    if "check_s" in figures:
        line += f"   check {figures['check_s']:5.0f} s {figures['check_gb']:6.2f} GB"
    print(line, flush=True)
    return float(figures["making_gb"])


def measure(folder: Path, work: str, format_name: str, level: str) -> int:
    """One piece of work in this process; its figures are the last line of standard output."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if work == "build":
        build(folder, layers=int(format_name))
        print("{}")
        return 0
    start = time.perf_counter()
    at_check: dict[str, float] = {}

    def report(event: str, values: dict[str, Any]) -> None:
        if event == "stage" and values["name"] == "check":
            at_check.update(making_s=time.perf_counter() - start, making_gb=peak_gigabytes())

    if work == "peft":
        merge_with_peft(folder)
    else:
        export(folder, format_name, level, report)
    seconds, gigabytes = time.perf_counter() - start, peak_gigabytes()
    if at_check:
        print(json.dumps({**at_check, "check_s": seconds - at_check["making_s"], "check_gb": gigabytes}))
    else:
        print(json.dumps({"making_s": seconds, "making_gb": gigabytes}))
    shutil.rmtree(folder / "out", ignore_errors=True)
    return 0


def peak_gigabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def export(folder: Path, format_name: str, level: str, report: Any) -> None:
    from rl.base.export_records import ExportJob
    from rl.export.gguf import export as gguf
    from rl.export.hf import merge

    job = ExportJob(str(folder / "base"), folder / "adapter", folder / "out", "benchmark", level)
    {"gguf": gguf, "merged": merge}[format_name].export(job, report)


def merge_with_peft(folder: Path) -> None:
    from rl.export.hf.loading import load_merged
    from rl.lm.loading import SHARD

    load_merged(str(folder / "base"), folder / "adapter").save_pretrained(folder / "out", max_shard_size=SHARD)


def build(folder: Path, layers: int) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config

    from rl.base.records import silent
    from rl.lm.tiny_model import build as build_tiny

    tokenizer = AutoTokenizer.from_pretrained(build_tiny(folder / "tiny", silent))
    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=layers,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder / "base", max_shard_size="1GB")
    tokenizer.save_pretrained(folder / "base")
    adapted = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(folder / "adapter", save_embedding_layers=False)


if __name__ == "__main__":
    sys.exit(main())
