"""Where log-probabilities of answers are kept (``kept_scores``). It may be thrown away, and is made again."""

from pathlib import Path

from django.conf import settings

NAME = "answer_scores"


def score_folder() -> Path:
    return Path(settings.DATA_DIR) / NAME
