"""The product's judge for benchmarks/verdicts.py: SmolLM2 reads each answer once, however often it is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from django.conf import settings

from rl.base.records import GeneratedAnswer, Report, silent
from rl.config.embedded_models import SMOLLM2
from rl.evaluation.measures import fresh
from rl.evaluation.preferring import Terms, choose_judge, weigh
from rl.evaluation.stats.budget import at_look
from rl.evaluation.torch import scoring
from rl.judge.features import Reader
from rl.judge.labels import Conversation
from rl.lm import base_models

if TYPE_CHECKING:
    from verdicts import Compared

MOST_TOKENS = 512


class Remembering(Reader):
    """A reader that has read before."""

    known: dict[str, np.ndarray]

    def features(self, conversations: Sequence[Conversation], report: Report) -> np.ndarray:
        keys = [repr(conversation) for conversation in conversations]
        new = {key: at for at, key in enumerate(keys) if key not in self.known}
        if new:
            read = super().features([conversations[at] for at in new.values()], report)
            self.known |= dict(zip(new, read, strict=True))
        return np.stack([self.known[key] for key in keys])


class Desk:
    def __init__(self) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        self.base = base_models.resolve(SMOLLM2, silent)
        reader = Remembering(self.base, max_length=MOST_TOKENS, report=silent)
        reader.known = {}
        scoring.Reader = lambda *args, **options: reader  # type: ignore[assignment,misc]

    def weigh(self, known: Sequence[Compared], rows: Sequence[Compared]) -> tuple[fresh.Fresh | None, str]:
        """Compares the first answers with the second; and what the judge alone would decide."""
        labelled = [as_label(row) for row in known]
        asked = [{"prompt": question(row.prompt), "prompt_key": row.prompt} for row in rows]
        answers: dict[str, list[GeneratedAnswer | None]] = {
            name: [GeneratedAnswer(row.answers[side], 1, 1) for row in rows]
            for side, name in enumerate(("new", "base"))
        }
        judge = choose_judge("", self.base, MOST_TOKENS, silent)
        judged = fresh.measure(judge, "dpo", labelled, asked, answers)
        verdict = weigh(None, judged, {"prompts": len(rows)}, Terms(at_look(1), 0.0)).verdict
        return judged, verdict.decision


def question(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def as_label(row: Compared) -> dict[str, Any]:
    """The majority's preference."""
    better, worse = row.answers if row.share > 0.5 else row.answers[::-1]
    sides = {name: [{"role": "assistant", "content": text}] for name, text in (("chosen", better), ("rejected", worse))}
    return {"prompt": question(row.prompt), "prompt_key": row.prompt, "weight": 1.0, **sides}
