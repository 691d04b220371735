"""It is imported into other people's processes: the standard library must do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


ROOT = Path(__file__).resolve().parents[3]
BARE = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from rl.collect import TraceCollector, hook_into_agent, ExecutionTrace
collector = TraceCollector(data_dir=sys.argv[2])
def agent(query):
    return query.upper()
hook_into_agent(agent, collector).agent("where is my parcel?")
assert collector.flush()
[trace] = collector.get_unlabeled_traces()
ours = {name.split(".")[0] for name in set(sys.modules) - before}
print(trace.final_response, sorted(ours - set(sys.stdlib_module_names)))
assert "django" not in sys.modules
"""


def test_a_bare_interpreter_can_record(tmp_path: Path):
    # -S: without site-packages, so whatever is not in the standard library would fail.
    command = [sys.executable, "-I", "-S", "-c", BARE, str(ROOT), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "WHERE IS MY PARCEL? ['rl']"
