"""The whole way with a model that people use: its template, vocabulary, tied embeddings, end tokens and GGUF."""

from pathlib import Path

import pytest
import torch

from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.gguf.check import self_check
from rl.export.gguf.export import export
from rl.lm import loading, smollm2
from rl.training import dpo
from tests.export.llama_cpp.greedy import greedy_tokens
from tests.training.conftest import Listener, job, row

pytestmark = [pytest.mark.learn, pytest.mark.slow]
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
ANSWER = "The capital of France is Paris."


def job_of(base: Path, folder: Path, level: str) -> ExportJob:
    return ExportJob(base_model=str(base), adapter_dir=None, output_dir=folder, name="smollm2", quantization=level)


def test_the_unpacked_model_is_the_one_in_the_file(smollm2_base: Path):
    """Tokens, template and end are the same; llama.cpp rounds the activations of Q4_1, so that log-probabilities differ."""
    figures = self_check(smollm2.fetch(), smollm2_base, "q8_0")
    assert figures["chat_template"] == "equal"
    assert figures["tokens_equal"] > 150
    assert figures["mean_kl"] < 0.02


def test_it_answers_and_ends_its_turn(smollm2_base: Path):
    tokenizer, model = loading.load_tokenizer(str(smollm2_base)), loading.load_base(str(smollm2_base)).eval()
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        tokens = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(tokens, skip_special_tokens=True) == ANSWER
    assert tokens[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_its_export_answers_in_llama_cpp(smollm2_base: Path, tmp_path: Path):
    result = export(job_of(smollm2_base, tmp_path, "q8_0"), silent)
    assert "warning" not in result.details
    tokenizer = loading.load_tokenizer(str(smollm2_base))
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_dict=True)["input_ids"]
    answer = tokenizer.decode(greedy_tokens(result.path, prompt, 20), skip_special_tokens=True)
    assert answer.startswith(ANSWER)


def test_its_top_layers_are_trained(smollm2_base: Path, tmp_path: Path):
    rows = [
        row(QUESTION[0]["content"], "Paris.", "That is a question that many people ask."),
        row("Hi?", "Hello.", "No."),
    ]
    options = {"train_layers": 2, "batch_size": 2, "epochs": 3.0, "learning_rate": 1e-3, "lora_dropout": 0.0}
    listener = Listener()
    dpo.train(job(smollm2_base, tmp_path, rows=rows, **options), listener)
    assert "the lowest 28 layers stay as they are" in listener.log
    losses = list(listener.losses.values())
    assert losses[0] == pytest.approx(0.6931, abs=1e-3)
    assert losses[-1] < losses[0]
