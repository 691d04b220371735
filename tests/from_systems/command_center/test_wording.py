"""What an agent that comes from Command Center learns: its application's questions and answers."""

import json

import pytest

from rl.collect.importers import importer
from rl.data_formatter import build_fixture_dpo_pairs, build_widget_dpo_pairs
from rl.data_formatter.wording.contract import Wording
from rl.dataset_builder import DataOptions, freeze
from rl.from_systems.command_center.wording import ANSWERS, CATALOGUE, PROMPTS
from rl.models import Agent
from tests.collect.make_command_center import write_files
from tests.data_formatter.answers import SCENARIOS, widget
from tests.dataset_builder.ratings import all_rows

WORDING = Wording(PROMPTS, ANSWERS)
DATA = {"demoData": {"label": "Load", "unit": "kW", "valueA": 1}}


def test_widgets_are_asked_for_in_the_sections_of_its_prompt_and_answered_in_its_json():
    entries = [
        widget(1, "comparison", "a", up=1, size="hero", data=DATA),
        widget(2, "kpi", "b", up=1, size="compact"),
        widget(3, "alerts", "c", down=1),
    ]
    pair, _ = build_widget_dpo_pairs(entries, [*SCENARIOS, "home-made"], wording=WORDING)
    system, user = pair.prompt
    assert (system["role"], user["role"]) == ("system", "user")
    for line in (
        f"- kpi: shows {CATALOGUE['kpi'].shows}; good for {CATALOGUE['kpi'].good_for}",
        "- home-made",
        "Intent: query | Domains: industrial | Entities: devices: Pump 4, Pump 5",
        "Primary: none | Secondary: none",
        "- Load (kW), valueA",
    ):
        assert line in user["content"].splitlines()
    chosen, rejected = json.loads(pair.chosen), json.loads(pair.rejected)
    assert chosen["heading"] == rejected["heading"] == "Compare the pumps"
    first = chosen["widgets"][0]
    request = {"query": "Compare the pumps", "metric": "Load", "entities": ["Pump 4", "Pump 5"]}
    assert first == {"scenario": "comparison", "size": "hero", "relevance": 0.95, "data_request": request}
    assert [w["relevance"] for w in chosen["widgets"]] == [w["relevance"] for w in rejected["widgets"]] == [0.95, 0.9]
    assert len([w for w, other in zip(chosen["widgets"], rejected["widgets"], strict=True) if w != other]) == 1


def test_fixtures_are_asked_for_among_all_that_there_are():
    entries = [widget(1, "kpi", "live", up=1), widget(2, "kpi", "daily", down=1)]
    (pair,) = build_fixture_dpo_pairs(entries, {}, fixtures={"kpi": ("daily", "live", "plain")}, wording=WORDING)
    assert "- daily\n- live\n- plain" in pair.prompt[1]["content"]
    assert json.loads(pair.chosen) == {"fixtures": [{"index": 0, "fixture": "live", "reason": ""}]}


@pytest.mark.parametrize("method", ["dpo", "mpo"])
def test_whatever_is_trained_on_its_import_is_asked_and_answered_so(db, tmp_path, data_dir, method: str):
    files = write_files(tmp_path, questions=12)
    agent = Agent.objects.create(name="widget-selector")  # as 'agent create' or 'api_key create --make-agent' makes it
    importer("command_center")(agent, files.entries, files.ratings)
    frozen = freeze(agent, DataOptions(pair_type=agent.pair_type, min_samples=1), method=method)
    rows = list(all_rows(frozen))
    assert rows
    for row in rows:
        assert row["prompt"][0]["role"] == "system"
        for text in (row["chosen"], row["rejected"]):
            assert text is None or json.loads(text[0]["content"]).keys() & {"widgets", "fixtures"}
    if method == "mpo":
        assert [row for row in rows if None in (row["chosen"], row["rejected"])]


@pytest.mark.database
def test_an_agent_that_comes_from_there_gets_its_defaults_once(db, tmp_path):
    files = write_files(tmp_path, questions=2)
    own = Agent.objects.create(name="own", export_quantization="q6_k")
    importer("command_center")(own, files.entries, dry_run=True)
    own.refresh_from_db()
    assert own.pair_type == "preference"
    importer("command_center")(own, files.entries)
    own.refresh_from_db()
    assert (own.pair_type, own.prompt_template, own.context_length) == ("both", "command_center", 2048)
    assert own.export_quantization == "q6_k"
    own.prompt_template, own.pair_type = "", "preference"
    own.save()
    importer("command_center")(own, files.entries)
    own.refresh_from_db()
    assert (own.pair_type, own.prompt_template) == ("preference", "")
