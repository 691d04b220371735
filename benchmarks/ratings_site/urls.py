import json

from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.urls import path

INSERT = "INSERT INTO bare_rating (trace, rater, scale, value) VALUES (%s, %s, %s, %s) RETURNING id"


def rate(request: HttpRequest) -> JsonResponse:
    """No key, no check: a body, a row, an answer."""
    given = json.loads(request.body)
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [given["trace"], given["rater"], given["scale"], given["value"]])
        (number,) = cursor.fetchone()
    answer = JsonResponse({"id": number}, status=201)
    answer.headers["Content-Length"] = str(len(answer.content))
    return answer


urlpatterns = [path("api/v1/feedback/", rate)]
