"""A version's page says in one sentence whether it is better."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from rl.base.measurements import Interval
from rl.evaluation.gate import Verdict
from rl.evaluation.judges import Judged
from rl.evaluation.measures.fresh import Fresh, check, estimate
from rl.evaluation.stats.budget import at_look
from rl.evaluation.weighing import Terms, weigh
from rl.models import Agent, Evaluation
from tests.admin.records import make_loop
from tests.browser.conftest import LiveSite
from tests.browser.test_rating_page import sign_in

pytestmark = pytest.mark.process


MARGINS = Interval(0.12, -0.05, 0.27)


def fresh_answers(share: float) -> Fresh:
    """36 prompts; the judge agrees with people on 69 of 78."""
    keys = [f"q{number}" for number in range(78)]
    judge = check(
        "a judge that has learned from its users' ratings",
        Judged([(key, [0.85 if number < 69 else 0.15] * 2) for number, key in enumerate(keys)], [], 240),
    )
    assert judge
    shares = [min(0.98, max(0.02, share + (number % 5 - 2) / 12)) for number in range(36)]
    return estimate(judge, [[value, value] for value in shares], [(f"new {n}", f"old answer {n}") for n in range(36)])


@pytest.mark.parametrize(("share", "sentence"), [(0.83, "Yes."), (0.53, "It is not known."), (0.2, "No.")])
def test_the_sentence_stands_above_all_else(
    page: Page, context: BrowserContext, live_site: LiveSite, agent: Agent, bob: User, share, sentence
) -> None:
    margins = Verdict("undecided", MARGINS, None, "The difference could be chance.")
    shown = {"difference": asdict(MARGINS), "pairs": 44, "prompts": 29}
    weighed = weigh(None, fresh_answers(share), margins, shown, Terms(at_look(1), 0.0, 0.3, 100))
    evaluation = Evaluation.objects.get(version=make_loop(agent, 7).version)
    evaluation.verdict = weighed.verdict.decision
    evaluation.report |= {"reason": weighed.verdict.reason, **weighed.report}
    evaluation.save()
    sign_in(context, live_site, bob)
    page.goto(f"{live_site.url}/admin/rl/modelversion/{evaluation.version_id}/change/")
    row = page.locator(".field-is_it_better")
    expect(row).to_contain_text(sentence)
    expect(row).to_contain_text("which agrees with people on 88% of 78 prompts")
    if share == 0.53:
        expect(row).to_contain_text("would show")
