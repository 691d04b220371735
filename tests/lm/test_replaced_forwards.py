"""A module has its own forward again, whatever that was and however the block ends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rl.lm.replaced_forwards import replaced_forwards

pytestmark = pytest.mark.learn


def double(x: Tensor) -> Tensor:
    return 2 * x


def triple(x: Tensor) -> Tensor:
    return 3 * x


def test_the_forward_of_the_class_and_one_that_was_put_in_its_place_come_back():
    plain, patched = nn.Identity(), nn.Identity()
    patched.forward = double
    one = torch.ones(1)
    with replaced_forwards({plain: triple, patched: triple}):
        assert (plain(one), patched(one)) == (3, 3)
    assert (plain(one), patched(one)) == (1, 2)
    assert "forward" not in vars(plain)


def test_they_come_back_after_an_exception_and_in_their_order_from_blocks_within_blocks():
    module, one = nn.Identity(), torch.ones(1)
    with replaced_forwards({module: double}):
        with pytest.raises(KeyError), replaced_forwards({module: triple}):
            raise KeyError
        assert module(one) == 2
    assert module(one) == 1
