"""The calls that try a grader out."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from rl.from_systems.openai_tuning.calls import TuningRefused, TuningView
from rl.from_systems.openai_tuning.graders.failures import GraderInvalid
from rl.from_systems.openai_tuning.graders.running import run
from rl.from_systems.openai_tuning.graders.specification import validate
from rl.from_systems.openai_tuning.graders.templates import LONGEST
from rl.web.api.auth import TRAIN


class GraderView(TuningView):
    scopes = {"POST": TRAIN}

    def grader(self, body: dict[str, Any]) -> dict[str, Any]:
        """Raises TuningRefused."""
        try:
            return validate(body.get("grader"))
        except GraderInvalid as error:
            raise TuningRefused(str(error), error.param, "invalid_grader") from None


class GraderValidate(GraderView):
    def post(self, request: Request) -> Response:
        return Response({"grader": self.grader(self.fields("grader"))})


class GraderRun(GraderView):
    def post(self, request: Request) -> Response:
        body = self.fields("grader", "model_sample", "item")
        sample = body.get("model_sample")
        if not isinstance(sample, str) or len(sample) > LONGEST:
            raise TuningRefused(f"model_sample must be a text of at most {LONGEST:,} characters", "model_sample")
        return Response(run(self.grader(body), body.get("item"), sample))
