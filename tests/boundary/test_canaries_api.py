"""No field of the API makes Ratchet run, import, open or connect to anything. Fields are found in the description of the API
and in the classes of the hyper-parameters: a new one is covered as soon as it is there."""

import json
import pkgutil
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from rest_framework.serializers import Serializer

from rl import registered
from rl.collect.feedback.tokens import TokenSubject, sign
from rl.collect.feedback.write import rate
from rl.config import METHODS, authority
from rl.config.authority import DATA_OPTIONS, HYPER_PARAMETERS, RUN_OPTIONS
from rl.models import Agent, Deployment, Experiment, TrainingRun
from rl.web.api import serializers
from tests.admin.records import make_run, make_version
from tests.boundary import api, canaries
from tests.boundary.canaries import TEXTS, inside, kinds, replaced
from tests.boundary.using import nothing_trained, use, work_on
from tests.boundary.watching import Deed, Watch
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
TRAIN = "/api/policies/train_policy/support-chat/"


@pytest.fixture
def key(secret_key: str) -> Client:
    return Client(headers={"authorization": f"Bearer {secret_key}"})


@pytest.fixture
def known(rated: Agent, settings: Any) -> dict[str, Any]:
    """What the fields and arguments of these names may be, so that a body is taken."""
    settings.BASE_MODELS = {"registered": "owner/registered"}
    trace, other = (make_trace(rated, response=text, external_id=f"e0000{text}", action={}) for text in "12")
    rating = rate(trace, rater="ann", scale="thumb", value=1, source="api")
    version = make_version(rated, "v40", pk=rating.event.pk, instruction="Be brief.")
    served = {"agent": rated, "target": "openai", "url": "http://127.0.0.1:9", "model_name": "m"}
    Deployment.objects.create(**served)
    Deployment.objects.create(**served, version=version)
    Deployment.promote(version)
    make_run(rated, pk=rating.event.pk)
    Experiment.objects.create(agent=rated, name="trial", pk=rating.event.pk)
    return {
        "agent": rated.name,
        "agentType": rated.name,
        "trace": str(trace.pk),
        "token": sign(TokenSubject(trace.pk, rated.pk)),
        "other_trace": str(other.pk),
        "id": str(trace.pk),
        "number": rating.event.pk,
        "entry_id": "e00001",
        "rater": "ann",
        "model_version": "v40",
        "method": "dpo",
        "baseModel": "registered",
        "rewardModel": None,
        "effort": api.LEFT_OUT,
    }


class Walk:
    """Sends canaries, and has every run that they make work until its training."""

    def __init__(self, key: Client, watch: Watch) -> None:
        self.key, self.watch = key, watch
        self.taken: list[str] = []
        self.sent: set[str] = set()

    def send(self, at: str, method: str, path: str, body: Any = None) -> bool:
        """Whether it was taken."""
        self.watch.at = at
        if method == "get":
            answer = self.key.get(path, body)
        else:
            text = json.dumps({} if body is None else body)
            answer = self.key.generic(method, path, text, content_type="application/json")
        assert answer.status_code < 500, (at, answer.content)
        if answer.status_code >= 300:
            return False
        with nothing_trained(self.watch):
            for run in TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE):
                work_on(run)
        self.taken.append(at)
        return True

    def walk(self, call: api.Call) -> None:
        """Into every place of the body, the query and the path; once into a place that several shapes of a body have."""
        at = f"{call.method} {call.template}"
        for where in self._places(call):
            for form, canary in canaries.forms_for(inside(call.body, where)).items():
                if (place := f"{at} {where} {form}") not in self.sent:
                    self.sent.add(place)
                    self.send(place, call.method, call.path, replaced(call.body, where, canary))
        for name in call.parameters:
            for form, text in TEXTS.items():
                self.send(f"{at} ?{name} {form}", "get", call.path, {name: text})
        for name in call.arguments:
            for form, text in TEXTS.items():
                path = call.template.replace(f"{{{name}}}", quote(text, safe="/"))
                self.send(f"{at} {{{name}}} {form}", call.method, path, call.body)

    def _places(self, call: api.Call) -> list[tuple[Any, ...]]:
        if call.method == "get":
            return []
        return [where for where in canaries.places(call.body) if not call.items or len(where) < 2]

    def train(self, name: str, canary: Any, method: str = "dpo") -> bool:
        """One hyper-parameter, by its camelCase name; what is taken is dry-run too."""
        first, *rest = name.split("_")
        field = first + "".join(map(str.title, rest))
        body = {"method": method, field: canary}
        at = f"train_policy {method} {field} {str(canary)[:60]}"
        return self.send(at, "post", TRAIN, body) and self.send(at, "post", TRAIN, {**body, "dryRun": True})


@pytest.fixture
def walk(key: Client, rated: Agent, watch: Watch) -> Walk:
    return Walk(key, watch)


def test_no_field_of_a_call_does_anything(walk: Walk, known: dict[str, Any], rated: Agent):
    for call in api.calls(known):
        query = {name: known[name] for name in call.parameters if name in known} if call.method == "get" else None
        if call.path.endswith("/cancel/"):
            TrainingRun.objects.filter(pk=known["number"]).update(state=TrainingRun.State.QUEUED)
        if call.path.endswith("/serve/"):
            Deployment.objects.exclude(version=None).delete()
        assert walk.send("", call.method, call.path, query if call.method == "get" else call.body), call
        walk.walk(call)
    assert use(rated, walk.watch) == 1
    assert len(walk.taken) > 100
    assert walk.watch.deeds == []


def test_no_hyper_parameter_does_anything(walk: Walk, rated: Agent):
    tried: set[str] = set()
    for method, record in METHODS.items():
        for name, default in record.config().as_dict().items():
            for canary in forms_of(name, default).values() if name not in tried else ():
                begins = walk.train(name, canary, method)
                assert not begins or name == "instruction", name  # which is words for the model
            tried.add(name)
    for name in {*RUN_OPTIONS, *DATA_OPTIONS, *canaries.KEYS} - tried:
        assert not walk.train(name, canaries.PATH), name
    assert walk.watch.deeds == []


def forms_of(name: str, default: Any) -> dict[str, Any]:
    """Numbers need few; what is not a trainer's gets all."""
    trainers = authority.owner(HYPER_PARAMETERS, name) is authority.Owner.TRAINER
    return canaries.forms_for(default) if trainers else canaries.FOR_TRAINING


def test_every_field_of_every_serializer_is_in_the_description():
    document = SchemaGenerator().get_schema(request=None, public=True)
    described = {name for schema in document["components"]["schemas"].values() for name in schema.get("properties", ())}
    calls = [call for path in document["paths"].values() for call in path.values()]
    described |= {parameter["name"] for call in calls for parameter in call.get("parameters", ())}
    for module in pkgutil.iter_modules(serializers.__path__):
        import_module(f"{serializers.__name__}.{module.name}")
    written = {
        name: kind.__name__
        for kind in kinds(Serializer)
        if kind.__module__.startswith("rl.") and kind.__module__ != "rl.from_systems.command_center.rows"
        for name, field in kind().fields.items()
        if not field.read_only
    }
    assert {name: kind for name, kind in written.items() if name not in described} == {}
    assert "environment" not in written


# --- the walk itself: it sees what happens without the check ------------------------------------------------------------


def test_without_the_table_a_module_would_be_imported(walk: Walk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(authority, "owner", lambda table, name: authority.Owner.TRAINER)
    with pytest.raises(Deed, match="find_spec|import"):
        walk.train("environment", canaries.FOR_TRAINING["type"], "agent")


def test_without_the_registered_names_a_path_would_be_looked_at(walk: Walk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registered, "_look_up", lambda field, name: name)
    with pytest.raises(Deed, match="os.stat"):
        walk.train("base_model", canaries.PATH)


def test_without_either_a_run_would_be_told_an_address(walk: Walk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registered, "_look_up", lambda field, name: name)
    monkeypatch.setattr("rl.scoring.rollouts.find_spec", lambda name: True)
    monkeypatch.setattr("rl.scoring.rollouts.require_rewards", lambda *arguments: None)
    monkeypatch.setattr("rl.runs.data_check.require_rewards", lambda *arguments: None)
    with pytest.raises(Deed, match="training with config vllm_server"):
        walk.train("vllm_server", canaries.ADDRESS, "grpo")
