"""N3's addresses: those of its guide, below ``policies/``, and those that its own pages call."""

from django.urls import URLPattern, path
from rest_framework.views import APIView

from rl.from_systems.n3.calls import PolicyFeedback, PolicyList, PolicyRun, TrainPolicy


def _path(route: str, view: type[APIView], name: str, *others: str) -> list[URLPattern]:
    """With and without the last slash: N3's clients write none, and a POST cannot be redirected. ``others``: further routes
    of the same call, which is described once."""
    hidden: type[APIView] = type(view.__name__, (view,), {"schema": None})
    spellings = [route, *(spelling for other in others for spelling in (f"{other}/", other))]
    return [path(f"{route}/", view.as_view(), name=name), *(path(other, hidden.as_view()) for other in spellings)]


urlpatterns = [
    *_path("api/policies/feedback/<str:agent>", PolicyFeedback, "api-policy-feedback", "api/feedback/<str:agent>"),
    *_path("api/policies/train_policy/<str:agent>", TrainPolicy, "api-train-policy", "api/train_policy/<str:agent>"),
    *_path("api/policies/<str:agent>", PolicyList, "api-policies"),
    *_path("api/policies/<str:agent>/runs/<int:pk>", PolicyRun, "api-policy-run"),
]
