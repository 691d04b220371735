"""A tiny base model that answers: it thanks, or a little less often waits. A random one is too far from any answer."""

from pathlib import Path
from typing import Any

from tests.training.conftest import Row, message, polite_rows

STEPS, RATE = 36, 2e-3


def build(base: Path, target: Path) -> Path:
    """Takes some seconds: all weights learn both answers of ``polite_rows``, at a rate that falls to nothing: a last
    step that is too long would leave another model behind on each kind of processor."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(base), AutoModelForCausalLM.from_pretrained(base)
    batch = _batch(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        falling.step()
        optimizer.zero_grad()
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target


def _batch(tokenizer: Any) -> dict[str, Any]:
    """Thanks for eight questions, and for six of them to wait too; prompts and padding teach nothing."""
    thanks = [[*row["prompt"], *row["chosen"]] for row in polite_rows(8)]
    chats = thanks + [[*row["prompt"], *row["rejected"]] for row in polite_rows(6)]
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    starts = [len(tokenizer.apply_chat_template(chat[:-1], add_generation_prompt=True)["input_ids"]) for chat in chats]
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for row, start in enumerate(starts):
        labels[row, :start] = -100
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "labels": labels}


def question(number: int, **details: Any) -> Row:
    return {
        "prompt": [message("user", f"Question number {number}?")],
        "prompt_key": str(number),
        "split_key": str(number),
        "details": details,
        "feedback": [],
    }
