"""Parses its code."""

from __future__ import annotations

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.blocks import fenced_blocks
from rl.rewards.syntax import CHECKS, is_valid

MOST_BLOCKS = 20


class SyntaxValidationReward(BaseReward):
    """The share of the fenced python, json, shell, yaml and sql blocks that their parser takes. Nothing is run."""

    name = "syntax_validation"
    weight = 1.0

    def compute(self, trace: TraceRecord) -> RewardResult:
        blocks = fenced_blocks(trace.response)
        if blocks is None:
            return self.abstains("the answer is too long to look at")
        known = [block for block in blocks if block.language in CHECKS][:MOST_BLOCKS]
        if not known:
            return self.abstains("it has no code block in python, json, shell, yaml or sql")
        judgements = [(block.language, is_valid(block.language, block.code)) for block in known]
        verdicts = [valid for _, valid in judgements if valid is not None]
        details = {"blocks": [{"language": language, "valid": valid} for language, valid in judgements]}
        if not verdicts:
            return self.abstains("its blocks are too long or too deep, or shell without a sandbox", **details)
        good = sum(verdicts)
        return self.gives(good / len(verdicts), f"{good} of {len(verdicts)} code blocks can be parsed", **details)
