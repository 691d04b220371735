import subprocess
import sys

import pytest

from rl.base.errors import UsageError
from rl.config.levels import LEVELS, check_level


def test_a_level_is_known_in_any_case():
    assert check_level(" Q4_K_M ") == "q4_k_m"


def test_an_unknown_level_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"unknown quantization 'q4'.*; known: f32, bf16, f16, q8_0.*q2_k") as caught:
        check_level("q4")
    assert all(level in str(caught.value) for level in LEVELS)


@pytest.mark.process
def test_the_levels_can_be_listed_without_torch():
    code = "import sys, rl.config.levels; assert 'torch' not in sys.modules and 'gguf' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
