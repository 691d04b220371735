"""SFT: what MPO learns from, of which the accepted answers are imitated; the others are there to be measured by."""

from __future__ import annotations

from collections.abc import Iterator

from rl.dataset_builder.read.groups import PromptRows
from rl.dataset_builder.rows.mixed import MixedRows


class AcceptedRows(MixedRows):
    """Good answers alone are enough."""

    _accepted = 0

    def prompts(self) -> Iterator[PromptRows]:
        for of_prompt in super().prompts():
            self._accepted += sum(row["chosen"] is not None for row in of_prompt.rows)
            yield of_prompt

    def problem(self, train: int, held_out: int) -> str:
        least = self._options.min_samples
        if train and self._accepted >= least:
            return ""
        return (
            f"{self._accepted} accepted answers, and {least} are needed: choose, edit or like answers, "
            f"or ask for fewer with --min-samples"
        )
