"""A script of somebody's page asks its agent and rates the answer, with nothing but a publishable key."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from rl.models import Agent, ApiKey, Feedback
from tests.browser.conftest import LiveSite
from tests.browser.servers import Site, serve
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.web.front.in_thread import serve_by

pytestmark = pytest.mark.process
SCRIPT = """async ([api, key]) => {
    const post = (path, body, more = {}) => fetch(api + path, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...more },
        body: JSON.stringify(body),
    });
    const library = { "x-stainless-lang": "js" };
    const messages = [{ role: "user", content: "hello" }];
    const answer = await post("/v1/chat/completions", { model: "support-chat", messages, stream: true }, library);
    const events = await answer.text();
    const trace = answer.headers.get("x-ratchet-trace");
    const rating = await post("/api/v1/feedback/", { trace, scale: "thumb", value: 1, rater: "visitor" });
    return { events, rated: rating.status };
}"""


@pytest.fixture
def shop(site: LiveSite) -> Iterator[Site]:
    yield from serve(Site(site.api, "/static/rl/ratchet-feedback.js"))


def test_a_page_asks_and_rates_across_origins(
    page: Page, shop: Site, site: LiveSite, agent: Agent, upstream: UpstreamDouble
) -> None:
    serve_by(upstream, agent)
    own = {"kind": ApiKey.Kind.PUBLISHABLE, "agent": agent, "scopes": [ApiKey.Scope.CHAT]}
    key = ApiKey.create(name="shop", allowed_origins=[shop.origin], **own)[1]
    page.goto(shop.url)
    done = page.evaluate(SCRIPT, [site.api, key])
    assert done["events"].endswith("data: [DONE]\n\n")
    assert done["rated"] == 201
    assert Feedback.objects.get().trace.response.startswith("support-chat-v2 says hello")
