import subprocess
import sys

import pytest

from rl.base.errors import UsageError
from rl.config import METHODS
from rl.training import method


@pytest.mark.learn
@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_train(name: str):
    assert callable(method(name).train)


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown training method 'ppp'.*; known: mpo, sft, dpo"):
        method("ppp")


@pytest.mark.process
def test_the_table_the_checkpoints_and_the_demo_need_no_torch():
    code = (
        "import sys, rl.lm.checkpoints, rl.lm.model_path, rl.demo, rl.evaluation; "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
