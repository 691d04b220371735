"""Models of the Hugging Face hub at one revision, so that the same name is the same model for ever."""

from pathlib import Path
from typing import Final

import huggingface_hub

from rl.base.errors import UsageError
from rl.base.records import Report
from rl.lm.loading import quiet
from rl.lm.model_path import MODEL_CONFIG
from rl.lm.reading import errors_as

_FILES: Final = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "README.md")
"""No pickles, and no code."""


def fetch_config(hub_id: str) -> None:
    """Puts the model's config.json into the hub's cache. Raises UsageError."""
    quiet()
    with errors_as(UsageError, f"cannot fetch {hub_id}"):
        huggingface_hub.hf_hub_download(hub_id, MODEL_CONFIG)


def snapshot(hub_id: str, revision: str, report: Report) -> Path:
    """The folder of that revision (a commit, a tag) in the hub's cache, fetched where it is not there. Raises UsageError."""
    quiet()
    report("stage", {"name": f"fetching {hub_id} at {revision[:12]}"})
    with errors_as(UsageError, f"cannot fetch {hub_id} at the revision {revision!r}"):
        return Path(huggingface_hub.snapshot_download(hub_id, revision=revision, allow_patterns=list(_FILES)))
