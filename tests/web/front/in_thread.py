"""The site with its gateway in a thread of the test, on the test's own database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.handlers.wsgi import WSGIHandler

from rl.models import Agent, Deployment
from rl.web.front.application import Front
from tests.admin.records import make_version
from tests.serving.gateway.upstream_double import UpstreamDouble, running


@contextmanager
def front_in_thread(settings: Any) -> Iterator[str]:
    """Its address. DATA_DIR must be the test's own."""
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    with running(Front(WSGIHandler())) as url:
        yield url


def serve_by(upstream: UpstreamDouble, agent: Agent, name: str = "v2") -> None:
    """The version of that name, which the upstream knows as ``support-chat-NAME``."""
    version = make_version(agent, name)
    Deployment.objects.create(
        agent=agent, version=version, target="openai", url=upstream.url, model_name=f"{agent}-{name}", alias="champion"
    )
