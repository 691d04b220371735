"""What is wrong with a grader, and what went wrong while it graded an answer."""

from typing import Final

from rl.base.errors import UsageError

FLAGS: Final = (
    "formula_parse_error",
    "invalid_variable_error",
    "model_grader_parse_error",
    "model_grader_refusal_error",
    "model_grader_server_error",
    "other_error",
    "python_grader_runtime_error",
    "python_grader_server_error",
    "sample_parse_error",
    "truncated_observation_error",
    "unresponsive_reward_error",
)
"""Names of what may go wrong, as OpenAI's clients read them."""
DETAILS: Final = {
    "model_grader_server_error": "model_grader_server_error_details",
    "python_grader_runtime_error": "python_grader_runtime_error_details",
    "python_grader_server_error": "python_grader_server_error_type",
}
"""Flag to the name under which its reason stands; the others have none."""
MOST_DETAILS = 2000


class GraderInvalid(UsageError):
    """``param`` is the path of the field to blame, such as ``grader.graders.name.operation``."""

    def __init__(self, param: str, problem: str) -> None:
        self.param = param
        super().__init__(f"{param}: {problem}")


class GradingFailed(Exception):
    """A grader could not grade an answer: its reward is 0, and ``flag`` is one of FLAGS."""

    def __init__(self, flag: str, problem: str = "") -> None:
        self.flag = flag
        super().__init__(problem[:MOST_DETAILS])
