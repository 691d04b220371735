"""From a trained version to two versions in front of users, their ratings, promotion and rollback: as people do it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from playwright.sync_api import Browser, Page, expect

from tests.browser import servers
from tests.browser.conftest import browser
from tests.commands.site import Site, serving

pytestmark = pytest.mark.process


__all__ = ["browser"]
WIDGET = "/static/rl/ratchet-feedback.js"
USERS = [f"user-{number}" for number in range(14)]


@pytest.fixture(scope="module")
def trained(briefly_trained_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With a version that is in use, whatever its few steps have taught it."""
    site = briefly_trained_site.copy(tmp_path_factory.mktemp("serving") / "data")
    (name,) = site.query("SELECT name FROM rl_modelversion")[0]
    site.run("deploy_model", "--agent", "support-chat", "--version", name, "--target", "llama_cpp", "--promote")
    site.run("deploy_model", "--agent", "support-chat", "--version", "base", "--target", "llama_cpp")
    arms = f"base=50,{name}=50"
    site.run("experiment", "start", "--agent", "support-chat", "--name", "first", "--arms", arms, "--control", "base")
    return site


@pytest.fixture(scope="module")
def address(trained: Site) -> Iterator[str]:
    with serving(trained) as url:
        yield url
    trained.run("deploy_model", "--agent", "support-chat", "--stop", "--version", "base")
    trained.run("deploy_model", "--agent", "support-chat", "--stop", "--version", version(trained))


def version(site: Site) -> str:
    return str(site.query("SELECT name FROM rl_modelversion")[0][0])


@pytest.fixture
def shop(address: str) -> Iterator[servers.Site]:
    """The application, at another origin than the gateway."""
    yield from servers.serve(servers.Site(address, WIDGET))


def rate(page: Page, shop: servers.Site, key: str, trace: str, thumb: str) -> None:
    """As a user of the shop."""
    shop.body = f'<ratchet-feedback key="{key}" trace="{trace}"></ratchet-feedback>'
    page.goto(shop.url)
    page.get_by_role("button", name=thumb, exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Thank you, saved.")


@pytest.mark.slow
def test_two_versions_answer_users_and_are_rated_promoted_and_rolled_back(
    trained: Site, address: str, shop: servers.Site, browser: Browser
):
    secret = trained.json("api_key", "create", "--name", "app", "--kind", "secret")["key"]
    allowed = ("--kind", "publishable", "--allowed-origins", shop.origin, "--agent", "support-chat")
    public = trained.json("api_key", "create", "--name", "page", *allowed)["key"]
    client = OpenAI(base_url=f"{address}/v1", api_key=secret)
    answered: Counter[str] = Counter()
    for user in USERS:
        raw = client.chat.completions.with_raw_response.create(
            model="support-chat",
            messages=[{"role": "user", "content": "Where is my parcel?"}],
            user=user,
            max_tokens=8,
        )
        answered[raw.headers["x-ratchet-version"]] += 1
        thumb = "Not helpful" if raw.headers["x-ratchet-version"] == "base" else "Helpful"
        with browser.new_context() as context:  # the widget's rater is a browser's profile
            rate(context.new_page(), shop, public, raw.parse().id, thumb)
    name = version(trained)
    assert set(answered) == {"base", name}
    assert min(answered.values()) >= 4
    rated = dict(
        trained.query(
            "SELECT COALESCE(v.name, 'base'), AVG(f.value) FROM rl_feedback f JOIN rl_trace t ON t.id = f.trace_id "
            "LEFT JOIN rl_modelversion v ON v.id = t.model_version_id WHERE t.source = 'gateway' GROUP BY 1"
        )
    )
    assert rated == {"base": 0.0, name: 1.0}
    status = trained.json("experiment", "status", "--agent", "support-chat", "--name", "first")
    assert {arm["version"]: arm["samples"] for arm in status["arms"]} == dict(answered)
    assert status["verdict"] == ""
    trained.run("deploy_model", "--agent", "support-chat", "--rollback")
    assert trained.query("SELECT alias FROM rl_deployment WHERE version_id IS NOT NULL") == [("previous",)]
    trained.run("deploy_model", "--agent", "support-chat", "--version", name, "--promote")
    assert trained.query("SELECT alias FROM rl_deployment WHERE version_id IS NOT NULL") == [("champion",)]


def test_what_is_in_front_of_users_is_listed(trained: Site, address: str):
    listed = trained.json("deploy_model", "--agent", "support-chat", "--list")
    assert {row["version"] for row in listed["served"] if row["alive"]} == {"base", version(trained)}
    key = trained.json("api_key", "create", "--name", "b", "--kind", "secret")["key"]
    assert "support-chat" in {model.id for model in OpenAI(base_url=f"{address}/v1", api_key=key).models.list()}


def test_the_files_that_are_served_lie_in_the_data_directory(trained: Site):
    paths = [Path(path) for (path,) in trained.query("SELECT path FROM rl_deployment WHERE target = 'llama_cpp'")]
    assert len(paths) == 2
    assert all((trained.data / path).is_file() for path in paths)
