from dataclasses import replace

import pytest

from rl import auto_labels
from rl.auto_labels import predicting
from rl.base.errors import UsageError
from rl.collect.traces.records import trace_record
from rl.data_formatter.fresh import fresh_trace
from rl.judge import head
from rl.models import Agent
from tests.auto_labels.labelled import GOOD, make_labelled

pytestmark = [pytest.mark.learn, pytest.mark.usefixtures("data_dir")]


def test_of_a_stored_answer_it_says_what_was_proposed_and_loads_no_model(agent: Agent, learned, monkeypatch) -> None:
    good, bad = make_labelled(agent, 2, start=500, label=False)
    auto_labels.propose(learned)
    [late] = make_labelled(agent, 1, start=600, label=False)
    monkeypatch.setattr(predicting, "load_reader", None)
    predict = auto_labels.predictor(agent)
    assert predict is not None
    for trace in (good, bad):
        trace.refresh_from_db()
    assert predict(trace_record(good)) > 0.7  # type: ignore[operator]
    assert predict(trace_record(bad)) < 0.3  # type: ignore[operator]
    assert predict(trace_record(late)) is None


def test_a_fresh_answer_is_judged_by_a_base_model_that_is_loaded_once(agent: Agent, learned, monkeypatch) -> None:
    loads = []
    load = predicting.load_reader
    monkeypatch.setattr(predicting, "load_reader", lambda *arguments: loads.append(1) or load(*arguments))
    predict = auto_labels.predictor(agent)
    assert predict is not None
    prompt = [{"role": "user", "content": "Where is parcel 700?"}]
    row = {"prompt": prompt, "details": {}}
    assert predict(fresh_trace(row, GOOD.format(700))) > 0.7  # type: ignore[operator]
    assert predict(fresh_trace(row, "Sorry, I cannot help with number 700.")) < 0.3  # type: ignore[operator]
    assert len(loads) == 1


def test_another_base_model_is_one_clear_error(agent: Agent, learned) -> None:
    agent.base_model = "smollm2"
    with pytest.raises(UsageError, match=r"and the agent has smollm2 now: run auto_label again"):
        auto_labels.predictor(agent)


def test_a_base_model_that_was_replaced_under_its_name_is_one_clear_error(agent: Agent, learned) -> None:
    wide = learned.head
    narrow = replace(wide, mean=wide.mean[1:], scale=wide.scale[1:], weights=wide.weights[1:])
    head.save(narrow, learned.model.path)
    predict = auto_labels.predictor(agent)
    assert predict is not None
    with pytest.raises(UsageError, match="it has learned on another base model"):
        predict(fresh_trace({"prompt": [{"role": "user", "content": "Where?"}], "details": {}}, "There."))
