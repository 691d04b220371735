import pytest

from rl.rewards import CodeExecutionReward
from tests.rewards.records import record

pytestmark = pytest.mark.process


TESTS = [{"input": "3\n", "output": "9"}, {"input": "-2", "output": "4\n"}]
HONEST = "Square it:\n```python\nn = int(input())\nprint(n * n)\n```\n"


def compute(response: str, tests=None):
    return CodeExecutionReward().compute(record(response, details={"tests": tests} if tests is not None else {}))


@pytest.mark.parametrize("response", ["", "Just words.", "```json\n{}\n```", "```\nls\n```", "```python\n\n```"])
def test_without_code_it_does_not_apply(response):
    assert compute(response).value is None


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("all", "not a list"),
        ([{"input": "1"}], "test 1 is not an object"),
        ([*TESTS, {"input": 1, "output": "1"}], "test 3 is not an object"),
        ([{"output": "1", "timeout": "soon"}], "test 1 is not an object"),
        ([{"output": "1", "timeout": -1}], "test 1 is not an object"),
        (TESTS * 51, "at most 100"),
    ],
)
def test_tests_that_are_none_are_not_judged(tests, problem):
    result = compute(HONEST, tests)
    assert result.value is None
    assert problem in result.reason


@pytest.mark.usefixtures("_sandbox")
class TestInTheSandbox:
    def test_it_is_the_share_of_the_tests_that_pass(self):
        assert compute(HONEST, TESTS).value == 1.0
        assert compute("```python\nprint(int(input()) * 4)\n```", TESTS).value == 0.0

    def test_a_program_that_passes_some_tests_earns_their_share(self):
        result = compute("```python\nprint(9)\n```", TESTS)
        assert (result.value, result.reason) == (0.5, "1 of 2 tests passed")
        assert result.details["failures"] == [{"test": 2, "reason": "it printed something else"}]

    def test_the_last_python_block_is_the_program(self):
        assert compute(f"```python\nprint('draft')\n```\nBetter:\n{HONEST}```sh\nls\n```", TESTS).value == 1.0

    def test_an_answer_without_a_block_is_the_program(self):
        assert compute("n = int(input())\nprint(n * n)", TESTS).value == 1.0
        assert compute("I would square it.", TESTS).value == 0.0

    @pytest.mark.parametrize(
        "cheat",
        [
            "import sys; sys.exit(0)",
            "import os; os._exit(0)",
            "print('ALL TESTS PASSED')",
            "import sys\nclass Yes(str):\n    def __eq__(self, other): return True\nprint(Yes('9'))",
        ],
    )
    def test_ending_well_or_talking_well_earns_nothing(self, cheat):
        assert compute(f"```python\n{cheat}\n```", [{"input": "4", "output": "16"}]).value == 0.0

    def test_a_program_that_does_not_end_fails_its_test(self):
        result = compute("```python\nwhile True: pass\n```", [{"output": "1", "timeout": 0.5}])
        assert result.value == 0.0
        assert "limit" in result.details["failures"][0]["reason"]

    def test_without_tests_it_is_the_share_of_the_blocks_that_end_with_0(self):
        result = compute("```python\nprint(1)\n```\n```bash\nfalse\n```\n```sh\necho hi | grep h\n```")
        assert (result.value, result.reason) == (2 / 3, "2 of 3 code blocks end with exit code 0")
        assert [one["exit"] for one in result.details["blocks"]] == [0, 1, 0]

    def test_a_block_may_go_on_where_the_one_before_it_ended(self):
        assert compute("```python\nx = 2\n```\nThen:\n```python\nprint(x)\n```").value == 1.0
        assert compute("```python\nx = 2\n```\nThen:\n```python\nprint(y)\n```").value == 0.5

    def test_the_reason_of_a_failure_can_be_stored(self):
        result = compute("```python\nimport sys\nsys.exit('bad \\0 end')\n```")
        assert result.details["blocks"][0] == {"language": "python", "exit": 1, "error": "bad  end"}
