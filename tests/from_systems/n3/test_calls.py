import json
from pathlib import Path
from typing import Any

import pytest
from django_q.models import OrmQ

from rl.config import TrainingConfig
from rl.models import Agent, Feedback, MetricPoint, ModelVersion, Trace, TrainingRun, TrainingSet
from tests.admin.records import make_evaluation
from tests.dataset_builder.ratings import rate_prompts
from tests.from_systems.n3.samples import FEEDBACKS
from tests.web.api.conftest import Caller, assert_problem, key_for

pytestmark = pytest.mark.django_db
BODY = {"prompt": "Where is my parcel?", "response": "On its way.", "score": 0.8, "runId": "r1", "notes": "polite"}


def feedback_url(agent: Agent | str) -> str:
    return f"/api/policies/feedback/{agent}/"


def train_url(agent: Agent | str) -> str:
    return f"/api/policies/train_policy/{agent}/"


# --- feedback ----------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_score_is_a_rating_of_the_answer(server: Caller, agent: Agent):
    answer = server.post(feedback_url(agent), BODY)
    event = Feedback.objects.select_related("trace").get()
    document = answer.json()
    assert answer.status_code == 200
    assert document.keys() == {"status", "id", "agentId", "score", "createdAt"}
    assert (document["status"], document["id"]) == ("submitted", str(event.pk))
    assert (document["agentId"], document["score"]) == ("support-chat", 0.8)
    assert (event.scale, event.value, event.notes, event.source) == ("score", 0.8, "polite", "policies")
    assert (event.trace.response, event.trace.details["runId"]) == ("On its way.", "r1")


def test_the_newest_score_of_an_answer_counts(server: Caller, agent: Agent):
    first = server.post(feedback_url(agent), BODY).json()
    assert server.post(feedback_url(agent), BODY).json() == first
    assert server.post(feedback_url(agent), {**BODY, "score": 0.1}).json()["id"] != first["id"]
    assert Trace.objects.count() == 1
    assert [event.value for event in Feedback.objects.filter(is_current=True)] == [0.1]
    server.post(feedback_url(agent), {**BODY, "runId": "r2"})
    assert Trace.objects.count() == 2


def test_an_agent_is_made_by_a_key_that_is_for_all(server: Caller, agent: Agent):
    assert server.post(feedback_url("new-one"), BODY).json()["agentId"] == "new-one"
    own = Caller(key_for(agent))
    assert_problem(own.post(feedback_url("another"), BODY), 404, "another")
    assert own.post(feedback_url("Support-Chat"), BODY).json()["agentId"] == "support-chat"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"score": 1.5}, "score"),
        ({"score": True}, "score"),
        ({"prompt": ""}, "prompt"),
        ({"response": None}, "response"),
        ({"run_id": "r1"}, "run_id"),
        ({"notes": "x" * 100_000}, "notes"),
        ({"prompt": "\u0000"}, "prompt"),
    ],
)
def test_what_is_no_score_is_refused(server: Caller, agent: Agent, wrong: dict, word: str):
    assert_problem(server.post(feedback_url(agent), {**BODY, **wrong}), 400, word)
    assert not Feedback.objects.exists()


# --- training ----------------------------------------------------------------------------------------------------------


def test_too_few_samples_are_refused_with_how_many_are_missing(server: Caller, agent: Agent):
    for number in range(3):
        server.post(feedback_url(agent), {**BODY, "response": f"Answer {number}."})
    for body in ({}, {"dryRun": True}):
        assert_problem(server.post(train_url(agent), body), 400, "3 feedback samples, and 10 are needed: 7 more")
    assert not TrainingRun.objects.exists()


def test_a_dry_run_says_what_would_be_trained(server: Caller, agent: Agent, data_dir):
    rate_prompts(agent, 20)
    answer = server.post(train_url(agent), {"dryRun": True, "learningRate": 2e-4, "method": "dpo"})
    document = answer.json()
    assert answer.status_code == 200
    assert document["modelConfig"] == {
        "base_model": "tiny",
        "use_lora": True,
        "lora_r": 16,
        "learning_rate": 2e-4,
    }
    assert (document["status"], document["feedbackCount"]) == ("dry_run", 40)
    assert (document["scoreMean"], document["scoreStd"]) == pytest.approx((0.5, 0.5))
    assert not TrainingRun.objects.exists()
    assert not OrmQ.objects.exists()


def test_all_weights_are_trained_where_that_is_asked_for(server: Caller, agent: Agent, data_dir):
    rate_prompts(agent, 20)
    document = server.post(train_url(agent), {"dryRun": True, "full": True, "method": "dpo"}).json()
    assert document["modelConfig"]["use_lora"] is False
    assert document["modelConfig"]["learning_rate"] == pytest.approx(5e-6)


@pytest.mark.database
def test_a_training_is_queued_and_its_address_told(
    server: Caller, agent: Agent, data_dir, django_capture_on_commit_callbacks
):
    rate_prompts(agent, 20)
    with django_capture_on_commit_callbacks(execute=True):
        answer = server.post(train_url(agent), {"maxSteps": 7, "learningRate": 1e-3, "method": "kto", "loraR": 4})
    run = TrainingRun.objects.get()
    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"
    assert answer["Location"] == answer.json()["runUrl"] == f"/api/policies/support-chat/runs/{run.pk}/"
    config = [run.config[name] for name in ("max_steps", "learning_rate", "lora_r")]
    assert (run.method, config) == ("kto", [7, 1e-3, 4])
    assert OrmQ.objects.count() == 1
    assert_problem(server.post(train_url(agent), {}), 409, "in progress")


@pytest.mark.database
def test_scores_that_are_too_few_for_the_advised_method_are_learned_as_n3_does(server: Caller, data_dir):
    agent = Agent.objects.create(name="my_agent")  # whose two bad answers are held out
    for feedback in FEEDBACKS:
        body = {name: feedback[name] for name in ("prompt", "response", "score")}
        assert server.post(f"/api/feedback/{agent}", {**body, "runId": feedback["run_id"]}).status_code == 200
    assert server.post(train_url(agent), {"dryRun": True}).json()["method"] == "reward_model"
    trained_reward_model(agent, data_dir)
    assert server.post(train_url(agent), {"dryRun": True}).json()["method"] == "ppo"


def test_without_a_method_the_advised_one_is_taken(server: Caller, agent: Agent, data_dir):
    rate_prompts(agent, 20)
    assert server.post(train_url(agent), {"dryRun": True}).json()["method"] == "mpo"
    assert server.post(train_url(agent), {}).json()["method"] == "mpo"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"learningRat": 1}, "learning_rat"),
        ({"method": "magic"}, "known: mpo, sft, dpo"),
        ({"maxSteps": -1}, "maxSteps"),
        ({"learningRate": 5}, "learning_rate"),
        ({"epochs": "many"}, "epochs"),
        ([], "object"),
        ({"dryRun": "maybe"}, "dryRun"),
    ],
)
def test_a_wrong_setting_is_refused(server: Caller, agent: Agent, data_dir, body, word: str):
    rate_prompts(agent, 20)
    assert_problem(server.post(train_url(agent), body), 400, word)
    assert not TrainingRun.objects.exists()


def finished(agent: Agent, **config: Any) -> TrainingRun:
    version = ModelVersion.objects.create(agent=agent, name="v25", base_model="tiny", feedback_count=25)
    training_set = TrainingSet.objects.create(
        agent=agent,
        method="dpo",
        content_hash="0" * 64,
        train_rows=9,
        heldout_rows=1,
        feedback_count=25,
        val_split=0.2,
        stats={"scores": {"mean": 0.6, "std": 0.2}},
    )
    return TrainingRun.objects.create(
        agent=agent,
        method="dpo",
        version=version,
        training_set=training_set,
        state=TrainingRun.State.SUCCEEDED,
        step=30,
        config=TrainingConfig(**config).as_dict(),
    )


def learned_by_ppo(run: TrainingRun) -> None:
    """Two steps: the second earns more, and is further from the base model."""
    for step, reward, kl in ((1, 0.5, 0.0), (2, 0.9, 1.0)):
        values = {"reward": reward, "kl": kl, "kl_coef": 0.2, "loss": 1.0 / step}
        MetricPoint.objects.create(run=run, step=step, values=values)


def test_the_result_of_a_training_has_its_figures(server: Caller, agent: Agent, data_dir):
    run = finished(agent)
    answer = server.get(f"/api/policies/{agent}/runs/{run.pk}/")
    document = answer.json()
    assert answer.status_code == 200
    assert (document["status"], document["version"], document["policyId"]) == ("trained", "v25", str(run.version_id))
    assert (document["feedbackCount"], document["trainingSteps"]) == (25, 30)
    assert (document["scoreMean"], document["scoreStd"], document["rewardModelPath"]) == (0.6, 0.2, None)
    assert (document["rewardMean"], document["rewardStd"]) == (None, None)
    assert document["modelPath"].endswith("/models/support-chat/v25/adapter")


def test_the_reward_is_what_the_policy_earned_on_a_scale_of_minus_one_to_one_less_its_penalty(
    server: Caller, agent: Agent, data_dir
):
    run = finished(agent)
    learned_by_ppo(run)
    document = server.get(f"/api/policies/{agent}/runs/{run.pk}/").json()
    # 2 * 0.5 - 1 = 0, and 2 * (0.9 - 0.2 * 1) - 1 = 0.4
    assert (document["rewardMean"], document["rewardStd"]) == pytest.approx((0.2, 0.2))
    assert document["scoreMean"] == 0.6


@pytest.mark.database
def test_a_policy_learns_by_the_newest_reward_model_of_its_agent_or_by_the_one_that_is_named(
    server: Caller, agent: Agent, data_dir
):
    rate_prompts(agent, 20)
    assert_problem(server.post(train_url(agent), {"method": "ppo"}), 400, "train a reward model first", "reward_model")
    path = trained_reward_model(agent, data_dir)
    run = asked_for(server, agent, {"method": "ppo"})
    assert run.options["reward_model"] == str(path)
    assert run.options["origins"]["reward_model"] == "reward-v9"
    run.delete()
    assert asked_for(server, agent, {"method": "ppo", "rewardModel": "reward-v9"}).options["reward_model"] == str(path)
    body = {"method": "ppo", "rewardModel": "/etc"}
    assert_problem(server.post(train_url(agent), body), 400, "no reward model '/etc'; there are: reward-v9")


def asked_for(server: Caller, agent: Agent, body: dict[str, Any]) -> TrainingRun:
    answer = server.post(train_url(agent), body)
    assert answer.status_code == 202, answer.content
    return TrainingRun.objects.get(state=TrainingRun.State.QUEUED)


def trained_reward_model(agent: Agent, data_dir: Path) -> Path:
    version = ModelVersion.objects.create(agent=agent, name="reward-v9", base_model="tiny", feedback_count=9)
    done = TrainingRun.State.SUCCEEDED
    TrainingRun.objects.create(agent=agent, method="reward_model", version=version, state=done)
    folder = data_dir / "models" / agent.name / version.name / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text('{"task_type": "SEQ_CLS"}')
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def test_the_path_of_a_whole_model_is_told(server: Caller, agent: Agent, data_dir):
    run = finished(agent, full=True)
    document = server.get(f"/api/policies/{agent}/runs/{run.pk}/").json()
    assert document["modelPath"].endswith("/models/support-chat/v25/model")


@pytest.mark.database
def test_a_policy_shows_the_scores_that_its_reward_model_learned_from(server: Caller, agent: Agent, data_dir: Path):
    trained_reward_model(agent, data_dir)
    judge = TrainingRun.objects.get(method="reward_model")
    judge.training_set = TrainingSet.objects.create(
        agent=agent, method="reward_model", stats={"scores": {"mean": 0.7, "std": 0.1}}, **NUMBERS
    )
    judge.save()
    MetricPoint.objects.create(run=judge, step=1, values={"reward": 0.2})
    policy = ModelVersion.objects.create(agent=agent, name="v9", base_model="tiny", feedback_count=9)
    origins = {"origins": {"reward_model": "reward-v9"}}
    TrainingRun.objects.create(agent=agent, method="ppo", version=policy, state=judge.state, options=origins)
    by_name = {row["version"]: row["trainedOn"] for row in server.get(f"/api/policies/{agent}").json()}
    assert (by_name["v9"]["scoreMean"], by_name["v9"]["scoreStd"]) == (0.7, 0.1)
    assert (by_name["reward-v9"]["scoreMean"], by_name["reward-v9"]["rewardMean"]) == (0.7, None)


NUMBERS: dict[str, Any] = {
    "content_hash": "1" * 64,
    "train_rows": 8,
    "heldout_rows": 2,
    "feedback_count": 9,
    "val_split": 0.2,
}


def test_the_versions_are_listed(server: Caller, agent: Agent, data_dir):
    run = finished(agent)
    ModelVersion.objects.create(agent=agent, name="v30", base_model="tiny", feedback_count=30)
    newest, oldest = server.get(f"/api/policies/{agent}/").json()
    assert (newest["version"], newest["trainedOn"]["rewardMean"]) == ("v30", None)
    rewards = {"rewardMean": None, "rewardStd": None, "rewardModel": None}
    figures = {"feedbackCount": 25, **rewards, "scoreMean": 0.6, "scoreStd": 0.2}
    assert oldest["trainedOn"] == oldest["metrics"] == figures
    assert (oldest["id"], oldest["agentId"]) == (str(run.version_id), "support-chat")
    assert len(server.get(f"/api/policies/{agent}/", limit=1).json()) == 1
    assert_problem(server.get(f"/api/policies/{agent}/", limit="all"), 400, "limit")


def test_the_list_has_the_reward_of_fresh_answers_by_the_newest_reward_model_for_every_method(
    server: Caller, agent: Agent, data_dir
):
    run = finished(agent)
    learned_by_ppo(run)
    fresh = {"reward_model": "reward-v9", "mean": 0.75, "std": 0.1, "answers": 16}
    evaluation = make_evaluation(run.version, run.training_set)
    evaluation.report = {"fresh_reward": fresh}
    evaluation.save()
    make_evaluation(run.version, run.training_set)  # a later one, that was not scored
    [policy] = server.get(f"/api/policies/{agent}/").json()
    for figures in (policy["metrics"], policy["trainedOn"]):
        # 2 * 0.75 - 1 = 0.5
        assert (figures["rewardMean"], figures["rewardStd"]) == pytest.approx((0.5, 0.2))
        assert figures["rewardModel"] == "reward-v9"


def test_waiting_is_true_or_false(server: Caller, agent: Agent, data_dir):
    """What it does is the front's: tests/web/front/test_waiting.py."""
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    url = f"/api/policies/{agent}/runs/{run.pk}/"
    assert_problem(server.get(url, wait="perhaps"), 400, "wait")
    answer = server.get(url, wait="1")
    assert (answer.status_code, answer.json()["status"], answer.later.run) == (202, "queued", run.pk)
    assert server.get(url, wait="0").later is None


@pytest.mark.database
def test_a_training_is_waited_for_and_one_that_fails_is_an_error(server: Caller, agent: Agent, data_dir):
    rate_prompts(agent, 20)
    waited = server.post(train_url(agent), {"method": "kto"})
    run = TrainingRun.objects.get()
    assert waited.later.run == run.pk
    TrainingRun.objects.update(state="failed", error="no luck")
    status, body = waited.later.render()
    assert (status, json.loads(body)["detail"], json.loads(body)["status"]) == (500, "no luck", "failed")
    looked = server.get(f"/api/policies/{agent}/runs/{run.pk}/")
    assert (looked.status_code, looked.json()["error"]) == (200, "no luck")
    assert server.post(f"{train_url(agent)}?wait=false", {"method": "kto"}).later is None


def test_what_belongs_to_others_is_not_there(server: Caller, agent: Agent, other_agent: Agent, data_dir):
    own = Caller(key_for(other_agent))
    run = finished(agent)
    for answer in (
        own.get(f"/api/policies/{agent}/"),
        own.get(f"/api/policies/{agent}/runs/{run.pk}/"),
        own.post(train_url(agent), {}),
        server.get("/api/policies/nobody/"),
        server.get(f"/api/policies/{other_agent}/runs/{run.pk}/"),
    ):
        assert_problem(answer, 404)


@pytest.mark.parametrize("prefix", ["/api/policies", "/api"])
def test_n3s_own_pages_and_its_guide_call_other_addresses(prefix: str, server: Caller, agent: Agent, data_dir):
    """Without a last slash, either of them."""
    assert server.post(f"{prefix}/feedback/{agent}", BODY).status_code == 200
    refused = server.post(f"{prefix}/train_policy/{agent}", {"dryRun": True})
    assert "9 more are missing" in assert_problem(refused, 400)["detail"]
    assert server.get(f"/api/policies/{agent}").json() == []


def test_the_ratings_of_other_programs_keep_their_address(server: Caller, agent: Agent):
    assert server.get("/api/v1/feedback/").json()["results"] == []
