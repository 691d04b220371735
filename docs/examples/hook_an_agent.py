"""Watch an agent at work and send what it does to Ratchet. See docs/capturing.md.

    RATCHET_URL=http://127.0.0.1:8000 RATCHET_KEY=sk_… python3 docs/examples/hook_an_agent.py

It needs Python 3.11 or newer and nothing else.
"""

import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout of Ratchet

from rl.collect import TraceCollector, hook_into_agent

# --- your agent: nothing in here knows about Ratchet -------------------------------------------------------------------


class ParcelAgent:
    """Answers questions about parcels with two tools. Its language model is simulated."""

    def __init__(self) -> None:
        self.tools = {"track_parcel": self.track_parcel, "shipping_cost": self.shipping_cost}

    def run(self, query: str, session_id: str = "default") -> str:
        plan = self.complete(query)
        try:
            result = self.tools[plan["tool"]](**plan["arguments"])
        except ConnectionError:
            return "I could not reach the carrier. Please ask again later."
        return f"{result['text']} Is there anything else?"

    def complete(self, query: str) -> dict[str, Any]:
        """Stands for a call of a language model; the usage is what OpenAI's API says."""
        usage = {"prompt_tokens": 40 + len(query.split()), "completion_tokens": 12}
        number = next((word.strip("?.") for word in query.split() if word.strip("?.").isdigit()), "0")
        if "cost" in query:
            return {"tool": "shipping_cost", "arguments": {"grams": int(number)}, "usage": usage}
        return {"tool": "track_parcel", "arguments": {"parcel": number}, "usage": usage}

    def track_parcel(self, parcel: str) -> dict[str, str]:
        if random.random() < 0.4:
            raise ConnectionError("the carrier does not answer")
        return {"text": f"Parcel {parcel} arrives {random.choice(['today', 'tomorrow', 'on Friday'])}."}

    def shipping_cost(self, grams: int) -> dict[str, str]:
        return {"text": f"That costs {4 + grams / 1000:.2f} euros."}


# --- what you add ------------------------------------------------------------------------------------------------------

NAME = "parcel-helper"
"""Of the agent in Ratchet."""
QUESTIONS = ("Where is parcel 4711?", "When will parcel 815 be here?", "What does it cost to send 1500 grams?")
ATTEMPTS = 4
"""Of each question: training compares answers to the same prompt."""


def without_passwords(name: str, value: Any) -> Any:
    return "***" if name == "password" else value


def main() -> int:
    logging.basicConfig(format="%(levelname)s %(message)s")
    random.seed(7)
    url = os.environ.get("RATCHET_URL", "http://127.0.0.1:8000").rstrip("/")
    key = os.environ.get("RATCHET_KEY") or sys.exit(
        f"Set RATCHET_KEY to what this prints: python3 manage.py api_key create --name {NAME} --agent {NAME} --make-agent"
    )
    collector = TraceCollector(api_url=url, api_key=key, agent=NAME, redact=without_passwords)
    agent = ParcelAgent()
    hook_into_agent(agent, collector)

    for attempt in range(ATTEMPTS):
        for question in QUESTIONS:
            print(f"{question:40} {agent.run(question, session_id=f'customer-{attempt}')}")

    collector.close(timeout=15)
    sent, made = collector.counts["sent"], len(QUESTIONS) * ATTEMPTS
    print(f"\n{sent} of {made} runs are in Ratchet" + (f": {url}/traces/?agent={NAME}" if sent else ""))
    if sent < made:
        print(f"The warnings say why. Is the site at {url}, and is the key of RATCHET_KEY for {NAME}?", file=sys.stderr)
    return 0 if sent == made else 1


if __name__ == "__main__":
    sys.exit(main())
