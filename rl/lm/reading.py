"""Tokenizers, and what the libraries' errors become. Needs no torch, which takes three times as long to load as the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoTokenizer

from rl.base.errors import RatchetError
from rl.base.manner import Manner
from rl.base.template_settings import SWITCH
from rl.lm import minimind
from rl.lm.chat.template_trial import require_modest

minimind.register()

INSTRUCTION = "ratchet_instruction"
"""The setting of a tokenizer that says what its model is told with every question, and where."""


def read_tokenizer(source: str, failure: type[RatchetError], manner: Manner | None = None) -> Any:
    """``manner``: how the model is asked, which the tokenizer's files say from then on; None: as they do already. Raises
    ``failure``, also where the chat template takes what no template needs."""
    with errors_as(failure, f"cannot load the tokenizer of {describe_base(source)}"):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    require_modest(tokenizer.chat_template, describe_base(source), failure)
    if manner is not None:
        tokenizer.init_kwargs[SWITCH] = manner.thinks
        if manner.instruction:
            tokenizer.init_kwargs[INSTRUCTION] = [manner.instruction, manner.instruction_place]
    return tokenizer


def manner_of(tokenizer: Any) -> Manner:
    """How the tokenizer's files say that its model is asked."""
    settings = tokenizer.init_kwargs
    return Manner(bool(settings.get(SWITCH)), *settings.get(INSTRUCTION, ()))


_ANSWERS = (
    *(OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError, SafetensorError),
    *(ArithmeticError, AssertionError, MemoryError, StrictDataclassError),
)


@contextmanager
def errors_as(failure: type[RatchetError], what: str) -> Iterator[None]:
    """The libraries answer a damaged, foreign or unreachable model with many exception types; people need one line."""
    try:
        yield
    except RatchetError:
        raise
    except Exception as e:  # a bare one too: the tokenizers library knows no other
        if not isinstance(e, _ANSWERS) and type(e) is not Exception:
            raise
        lines = str(e).strip().splitlines() or [type(e).__name__]
        raise failure(f"{what}: {lines[0]}") from e


def describe_base(base: str) -> str:
    return base if Path(base).is_dir() else f"{base} (it is not a folder here, so the hub was asked)"
