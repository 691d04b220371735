import pytest

from rl.base.errors import UsageError
from rl.demo.load import DEMOS, load_demo
from rl.models import Agent, Feedback, Trace

pytestmark = pytest.mark.django_db


def test_each_model_has_a_demo_of_its_own():
    assert (load_demo("smollm2").name, load_demo("tiny").name) == ("mailroom", "support-chat")


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_is_loaded_once(name: str):
    agent = load_demo(DEMOS[name].model, 1, name)
    before = Trace.objects.count(), Feedback.objects.count()
    assert (load_demo(DEMOS[name].model, 1, name), agent.name) == (agent, name)
    assert (Trace.objects.count(), Feedback.objects.count()) == before
    assert all(before) or DEMOS[name].questions is None


def test_an_agent_on_another_model_is_left_alone():
    load_demo("tiny", 1, "mailroom")
    with pytest.raises(UsageError, match="the agent mailroom stands on tiny: go on with --model tiny"):
        load_demo("smollm2", 1, "mailroom")
    assert Agent.objects.get().base_model == "tiny"
