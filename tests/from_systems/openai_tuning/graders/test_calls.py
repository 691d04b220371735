"""Graders by OpenAI's own client."""

import httpx2
import openai
import pytest
from django.test import Client

from rl.models import ApiKey
from tests.from_systems.openai_tuning.graders.graders import multi, similarity, string_check
from tests.web.api.conftest import Caller

pytestmark = pytest.mark.django_db


def client_with(key: str) -> openai.OpenAI:
    """Its requests go to the site without a port."""
    site = Client()

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"HTTP_AUTHORIZATION": request.headers["authorization"]}
        response = site.post(request.url.path, request.content, content_type="application/json", **headers)
        return httpx2.Response(response.status_code, content=response.content, headers=dict(response.items()))

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key=key, base_url="http://site/v1", max_retries=0, http_client=transport)


@pytest.mark.process  # the client asks the machine what it is
def test_a_grader_is_run(secret_key: str):
    graders = client_with(secret_key).fine_tuning.alpha.graders
    both = multi("0.5 * a + 0.5 * b", a=string_check(), b=similarity("rouge_1"))
    result = graders.run(grader=both, model_sample="in Bern", item={"answer": "Bern"})
    assert result.reward == pytest.approx(1 / 3)
    assert result.sub_rewards == {"a": 0.0, "b": pytest.approx(2 / 3)}
    assert result.metadata.errors.sample_parse_error is False
    missing = graders.run(grader=string_check(), model_sample="Bern")
    assert (missing.reward, missing.metadata.errors.invalid_variable_error) == (0.0, True)


@pytest.mark.process  # the client asks the machine what it is
def test_a_grader_is_validated(secret_key: str):
    graders = client_with(secret_key).fine_tuning.alpha.graders
    grader = graders.validate(grader=string_check()).grader
    assert grader is not None
    assert grader.to_dict() == string_check()
    with pytest.raises(openai.BadRequestError) as refused:
        graders.validate(grader=multi("a", a=similarity("cosine")))
    assert (refused.value.param, refused.value.code) == ("grader.graders.a.evaluation_metric", "invalid_grader")
    assert "cosine needs embeddings" in refused.value.message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model_sample": "x"}, "grader"),
        ({"grader": string_check()}, "model_sample"),
        ({"grader": string_check(), "model_sample": "x" * 262_145}, "model_sample"),
        ({"grader": string_check(), "model_sample": "half \ud83d"}, None),
        ({"grader": string_check(), "model_sample": "x", "items": {}}, "items"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(server: Caller, body, param: str | None):
    answer = server.post("/v1/fine_tuning/alpha/graders/run", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_it_needs_a_key_that_may_train():
    _, key = ApiKey.create(name="reads", kind=ApiKey.Kind.SECRET, agent=None, scopes=[ApiKey.Scope.READ])
    answer = Caller(key).post("/v1/fine_tuning/alpha/graders/validate/", {"grader": string_check()})
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")
