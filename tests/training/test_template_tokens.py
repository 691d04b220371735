from dataclasses import replace
from pathlib import Path

import pytest

from rl.training.template_tokens import WEIGHT, TemplateTokens

ANSWERS = [
    [1, 2, 3, 10, 4, 5, 20, 6],
    [1, 2, 3, 11, 4, 5, 20, 6],
    [1, 2, 3, 10, 4, 5, 21, 6],
    [1, 2, 3, 11, 4, 5, 21, 6],
]
"""Two values in a template."""


def test_what_has_never_been_otherwise_is_of_the_template():
    template = TemplateTokens(2 * ANSWERS)
    for answer in ANSWERS:
        assert template.weights(answer) == [1.0 if token >= 10 else WEIGHT for token in answer]


@pytest.mark.parametrize("answers", [ANSWERS[:1], [[1, 2], [3, 4]], [[]]])
def test_what_was_seen_once_decides(answers: list[list[int]]):
    weights = TemplateTokens(answers)
    assert all(set(weights.weights(answer)) <= {1.0} for answer in answers)
    assert weights.weights([7, 8]) == [1.0, 1.0]


@pytest.mark.learn
@pytest.mark.parametrize("kind", ["structured", "free"])
def test_the_loss_is_a_mean_of_the_tokens_that_decide(tiny_base: Path, tmp_path: Path, kind: str):
    import torch

    from rl.base.records import silent
    from rl.training.imitating import good_rows, load_untrained, make_trainer
    from rl.training.preparing import prepare
    from tests.training.conftest import job, polite_rows

    asked = replace(job(tiny_base, tmp_path, polite_rows()), kind=kind)
    with prepare(asked, silent) as start:
        model = load_untrained(start)
        rows = good_rows(start, [([30, 31], answer) for answer in ANSWERS])
        trainer = make_trainer(start, model, rows, asked.config)
        loss = trainer.compute_loss(trainer.model, trainer.data_collator([*rows]))
        ids = torch.tensor([[30, 31, *answer] for answer in ANSWERS])
        scores = trainer.model(ids).logits.log_softmax(-1)
        said = scores[:, 1:-1].gather(2, ids[:, 2:, None])[..., 0]  # (B, tokens of an answer)
        template = TemplateTokens(ANSWERS)
        weights = torch.tensor([template.weights(answer) if kind == "structured" else [1.0] * 8 for answer in ANSWERS])
        expected = -((said * weights).sum(1) / weights.sum(1)).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
