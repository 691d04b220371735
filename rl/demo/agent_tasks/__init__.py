"""Small tasks for the two environments, train and eval: new members of the same families. Names and facts are made up.

Imports: nothing."""

from pathlib import Path
from typing import Final

CODE_TASKS: Final = Path(__file__).parent / "code"
SEARCH_TASKS: Final = Path(__file__).parent / "search"
