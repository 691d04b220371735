"""What axe has against a page."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}
"""And of what breaks no rule, not every node."""


def findings(page: Page) -> list[str]:
    """A line for each rule that is broken, with the first node that breaks it. A page that has axe already keeps it."""
    lines = []
    axe = Axe("null") if page.evaluate("'axe' in window") else Axe()
    for violation in axe.run(page, options=RULES).response["violations"]:
        node = violation["nodes"][0]
        why = " ".join(node["failureSummary"].split()[:30])
        lines.append(f"{violation['id']} ({len(violation['nodes'])}): {node['html'][:120]} {why}")
    return lines
