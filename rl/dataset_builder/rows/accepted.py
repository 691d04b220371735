"""SFT: what MPO learns from, of which the accepted answers are imitated; the others are there to be measured by."""

from __future__ import annotations

from rl.dataset_builder.rows.mixed import MixedRows


class AcceptedRows(MixedRows):
    """Good answers alone are enough."""

    def problem(self, train: int, held_out: int) -> str:
        least, count = self._options.min_samples, self._accepted.count
        if train and count >= least:
            return ""
        return (
            f"{count} accepted answers, and {least} are needed: choose, edit or like answers, "
            f"or ask for fewer with --min-samples"
        )
