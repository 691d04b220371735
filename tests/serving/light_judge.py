"""The judge's process without a model: it rates by length, and starts in a moment."""

import sys
from pathlib import Path
from typing import Any

from rl.serving import judge_child


class LightJudge:
    """Reads nothing; a base model that is damaged ends it."""

    def __init__(self, name: str, folder: str, max_length: int) -> None:
        if (Path(folder) / "model.safetensors").read_bytes() == b"damaged":
            sys.exit("the light judge ends")

    def rate(self, path: str, prompt: list[Any], answers: list[str]) -> list[float]:
        return [float(len(answer)) for answer in answers]


if __name__ == "__main__":
    judge_child.LoadedJudge = LightJudge  # type: ignore[assignment,misc]
    judge_child.main()
