"""Preference rows as token ids, in one way for training and for scoring.

The prompt is the conversation rendered with the opening of the assistant's turn; an answer is what the whole conversation
adds to it, its end-of-turn token included. This equals TRL's own preparation, which cuts and drops long rows unseen;
here both are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import batched_rows
from pathlib import Path
from typing import Any, TypedDict
