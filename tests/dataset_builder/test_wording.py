import json

import pytest

from rl.dataset_builder.training_dataset import DatasetPipeline
from rl.dataset_builder.wording import ask_agent
from rl.models import Agent, Feedback
from tests.conftest import make_trace

RULES = {"role": "system", "content": "Name the team."}
QUESTION = {"role": "user", "content": "Where is my parcel?"}


@pytest.fixture
def sorter(agent: Agent) -> Agent:
    agent.system_prompt = RULES["content"]
    agent.save()
    return agent


@pytest.mark.parametrize("template", ["", "plain"])
def test_a_question_is_asked_behind_the_agents_system_prompt_as_the_gateway_asks_it(sorter: Agent, template: str):
    sorter.prompt_template = template
    assert ask_agent(sorter, [QUESTION]) == (RULES, QUESTION)


def test_a_question_that_has_rules_of_its_own_keeps_them(sorter: Agent):
    own = {"role": "system", "content": "Be brief."}
    assert ask_agent(sorter, [own, QUESTION]) == (own, QUESTION)


def test_the_rows_of_a_training_begin_with_it(sorter: Agent, data_dir):
    for number in range(4):
        trace = make_trace(sorter, f"Where is parcel {number}?", "I am sorry.")
        Feedback.objects.create(agent=sorter, trace=trace, kind="correction", text="delivery", rater="alice")
    built = DatasetPipeline(sorter).build_dpo_dataset(min_samples=1)
    rows = [json.loads(line) for file in built.directory.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(rows) == 4
    assert all(row["prompt"][0] == RULES for row in rows)
