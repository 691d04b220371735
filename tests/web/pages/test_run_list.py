"""The list of runs, and several beside each other."""

import json
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q.models import OrmQ

from rl.collect.feedback.write import rate
from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, MetricPoint, TrainingRun
from rl.runs.monitor import PAUSED
from rl.runs.stage_log import Stages
from rl.web import run_lists
from rl.web.pages.runs import LOG_BYTES, eta_seconds, log_tail
from rl.web.run_lists import HEIGHT, WIDTH, stage_line
from tests.admin.records import make_loop, make_run
from tests.collect.made_episodes import trained
from tests.conftest import make_trace

HOSTILE = "<script>alert(1)</script>"
S = TrainingRun.State
WISH = {"agent": "support-chat", "method": "", "base_model": "", "preset": ""}


def measure(run: TrainingRun, steps: int) -> None:
    points = [MetricPoint(run=run, step=step, values={"accuracy": 1, "loss": 1 / step}) for step in range(1, steps + 1)]
    MetricPoint.objects.bulk_create(points)


@pytest.mark.database
def test_a_run_tells_what_it_learned_from_what_it_made_and_who_started_it(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    TrainingRun.objects.filter(pk=run.pk).update(started_by=HOSTILE)
    text = staff.get("/runs/").content.decode()
    for words in ("20 rows", "of 40 ratings", "promote", ">v1</a>", "&lt;script&gt;", '<polyline points="'):
        assert words in text, words
    assert HOSTILE not in text


@pytest.mark.database
def test_agent_and_state_filter_the_list(staff: Client, agent: Agent) -> None:
    mine, failed = make_run(agent), make_run(agent, TrainingRun.State.FAILED)
    other = make_run(Agent.objects.create(name="other"))

    def shown(**filters: str) -> list[TrainingRun]:
        return [row.run for row in staff.get("/runs/", filters).context["shown"].runs]

    assert shown() == [other, failed, mine]
    assert shown(agent="Support-Chat") == [failed, mine]
    assert shown(agent="support-chat", state="failed") == [failed]
    assert shown(state="no such", before="x") == [other, failed, mine]
    assert "There is no agent named &lt;script&gt;" in staff.get("/runs/", {"agent": HOSTILE}).content.decode()


@pytest.mark.database
def test_every_run_is_on_exactly_one_page(staff: Client, agent: Agent) -> None:
    for _ in range(run_lists.PAGE + 3):
        make_run(agent)
    first = staff.get("/runs/").context
    second = staff.get(f"/runs/?{first['older']}").context
    numbers = [row.run.pk for context in (first, second) for row in context["shown"].runs]
    assert numbers == sorted(TrainingRun.objects.values_list("pk", flat=True), reverse=True)
    assert second["older"] == ""


def test_the_list_costs_the_same_for_one_run_and_for_a_page(staff, agent, django_assert_max_num_queries) -> None:
    for number in range(1, 20):
        make_loop(agent, number)
    with django_assert_max_num_queries(8):
        staff.get("/runs/", {"agent": "support-chat"})


def test_the_line_of_a_long_run_has_few_points_within_its_picture(agent: Agent) -> None:
    run = make_run(agent, total_steps=900)
    measure(run, 900)
    [row] = run_lists.newest().runs
    points = [tuple(map(float, point.split(","))) for point in row.spark.split()]
    assert 30 < len(points) <= run_lists.POINTS + 1
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


@pytest.mark.database
def test_what_differs_between_two_runs_is_named_and_nothing_else(staff: Client, agent: Agent) -> None:
    one = make_run(agent, options={"data": {"val_split": 0.2}, "sweep": False})
    two = make_run(agent, options={"data": {"val_split": 0.3}, "sweep": False})
    two.config = {**two.config, "epochs": 1.0}
    two.save()
    page = staff.get("/runs/compare/", {"run": [one.pk, two.pk, 99, "x"]})
    assert page.context["differences"] == [("epochs", ["3.0", "1.0"]), ("data: val_split", ["0.2", "0.3"])]
    assert b"There is no run 99" in page.content
    assert (
        b"the same settings"
        in staff.get("/runs/compare/", {"run": [one.pk, make_run(agent, options=one.options).pk]}).content
    )


def test_more_runs_than_can_be_told_apart_are_left_out_and_that_is_said(staff: Client, agent: Agent) -> None:
    page = staff.get("/runs/compare/", {"run": [make_run(agent).pk for _ in range(8)]})
    assert len(page.context["figures"]) == 6
    assert b"These are the first 6" in page.content
    assert b"Pick at least two runs" in staff.get("/runs/compare/").content


def words(run: TrainingRun, *names: str) -> list[str]:
    return [step.progress.value for step in stage_line(run, Stages(names, None))]


@pytest.mark.parametrize(
    ("names", "step"),
    [
        (["preparing data", "loading the base model"], 0),
        (["preparing data", "scoring under the base model"], 1),
        (["preparing data", "training"], 2),
        (["training", "evaluating", "loading the base model"], 3),
        (["training", "evaluating", "judging the answers", "fresh answers: new"], 4),
        (["training", "exporting GGUF q8_0", "convert"], 5),
        (["training", "exporting GGUF q8_0", "starting llama.cpp"], 6),
    ],
)
def test_a_run_is_at_the_furthest_step_that_it_has_reached(agent: Agent, names: list[str], step: int) -> None:
    shown = words(make_run(agent, S.RUNNING, stage=names[-1][:32]), *names)
    assert shown == ["done"] * step + ["now"] + ["waiting"] * (6 - step)


def test_a_run_that_failed_shows_where(agent: Agent) -> None:
    assert words(make_run(agent, S.FAILED), "preparing data", "training")[1:4] == ["done", "stopped", "waiting"]


def test_a_run_that_ended_well_shows_what_was_left_out(agent: Agent) -> None:
    assert words(make_loop(agent)) == ["done"] * 7
    assert words(make_run(agent))[5:] == ["skipped", "skipped"]
    assert set(words(make_run(agent, S.QUEUED))) == {"waiting"}


@pytest.fixture
def rated(agent: Agent, data_dir: Path) -> Agent:
    for number in range(12):
        for value in (0, 1):
            answer = make_trace(agent, f"question {number}", f"answer {number} {value}")
            rate(answer, rater="user:alice", scale="thumb", value=value, source="test")
    return agent


@pytest.mark.parametrize("page", ["/runs/new/", "/runs/plan.json", "/runs/plan/rows/"])
def test_it_takes_the_permission_to_add_runs(client: Client, agent: Agent, page: str) -> None:
    assert client.get(page)["Location"].startswith("/login/")
    viewer = User.objects.create_user("dora", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_trainingrun"))
    client.force_login(viewer)
    assert client.get(page, WISH).status_code == 403
    assert client.post("/runs/new/", WISH).status_code == 403
    assert b'href="/runs/new/"' not in client.get("/runs/").content
    assert not TrainingRun.objects.exists()


def test_the_plan_says_what_becomes_of_the_ratings_and_changes_with_the_choice(staff: Client, rated: Agent) -> None:
    everything, labels = (staff.get("/runs/plan.json", {**WISH, "method": name}).json() for name in ("", "kto"))
    assert 0 < everything["rows"] < labels["rows"] <= 24
    assert [table["title"] for table in everything["tables"]][:2] == ["Data", "Left out"]
    assert ["ratings read", "24"] in everything["tables"][0]["rows"]
    assert everything["active"] == ""
    run = make_run(rated, TrainingRun.State.QUEUED)
    assert staff.get("/runs/plan.json", WISH).json()["active"] == f"/runs/{run.pk}/"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": "nobody"}, "unknown agent"),
        ({"method": "sing"}, "unknown training method"),
        ({"method": "agent"}, "unknown training method"),
        ({"preset": "huge"}, "unknown preset"),
        ({"effort": "days"}, "there is no effort days"),
        ({"effort": "now", "preset": "cpu"}, "name one of the two"),
        ({"base_model": "/etc"}, "no base model is registered under the name"),
    ],
)
def test_a_wrong_choice_is_refused_and_nothing_is_queued(staff: Client, rated, change, words: str) -> None:
    answer = staff.get("/runs/plan.json", {**WISH, **change})
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    page = staff.post("/runs/new/", {**WISH, **change})
    assert page.status_code == 400
    assert words in page.content.decode()
    assert not TrainingRun.objects.exists()


def test_too_little_to_learn_from_is_told_before_a_run_is_made(staff: Client, agent: Agent, data_dir: Path) -> None:
    answer = staff.get("/runs/plan.json", WISH)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_button_queues_the_run_in_the_name_of_who_pressed_it(
    staff: Client, rated: Agent, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post("/runs/new/", {**WISH, "preset": "quick_prototype"})
    run = TrainingRun.objects.get()
    assert answer["Location"] == f"/runs/{run.pk}/"
    assert (run.method, run.trigger, run.started_by, run.state) == ("mpo", "manual", "bob", "queued")
    assert (run.config["lora_r"], run.options["base_model"]) == (8, rated.base_model)
    [message] = OrmQ.objects.all()
    assert (message.task["func"], message.task["args"]) == ("rl.tasks.start_run", (run.pk,))


def test_the_effort_is_part_of_the_plan_and_of_the_run(staff: Client, rated: Agent) -> None:
    plan = staff.get("/runs/plan.json", {**WISH, "effort": "minutes"}).json()
    told = dict(plan["tables"][-1]["rows"])
    assert told["effort"].startswith("minutes: as the preset auto chooses")
    staff.post("/runs/new/", {**WISH, "effort": "minutes"})
    assert "epochs" in TrainingRun.objects.get().config["automatic"]


def test_a_second_run_of_an_agent_is_refused_with_a_way_to_the_first(staff: Client, rated: Agent) -> None:
    run = make_run(rated, TrainingRun.State.RUNNING)
    page = staff.post("/runs/new/", WISH)
    assert page.status_code == 400
    assert f"support-chat has run {run.pk} in progress" in page.content.decode()
    assert f'<a href="/runs/{run.pk}/">' in page.content.decode()


def test_a_site_without_an_agent_says_so(staff: Client) -> None:
    assert b"There is no agent yet" in staff.get("/runs/new/").content


@pytest.fixture
def run(agent: Agent, data_dir: Path) -> TrainingRun:
    run = make_run(agent, TrainingRun.State.RUNNING, step=20, total_steps=100, stage="training", attempt=1)
    MetricPoint.objects.bulk_create(
        [MetricPoint(run=run, step=step, values={"loss": 1 / step, "nan": None}) for step in (10, 20)]
    )
    return run


def test_it_tells_how_far_the_run_is(staff: Client, run: TrainingRun) -> None:
    run.directory.mkdir(parents=True)
    (run.directory / "log.txt").write_text("step 10\nstep 20\n")
    answer = staff.get(f"/runs/{run.pk}/progress.json").json()
    assert answer["points"] == [[10, {"loss": 0.1, "nan": None}], [20, {"loss": 0.05, "nan": None}]]
    assert (answer["state"], answer["stage"], answer["step"], answer["total_steps"]) == ("running", "training", 20, 100)
    assert answer["log_tail"] == "step 10\nstep 20\n"
    assert answer["error"] == ""


def test_it_tells_how_many_tasks_are_solved(staff: Client, run: TrainingRun) -> None:
    assert staff.get(f"/runs/{run.pk}/progress.json").json()["success"] is None
    store_episodes(run.agent, [trained(step=4), trained("b", step=4, reward=0.0, success=False)], run)
    answer = staff.get(f"/runs/{run.pk}/progress.json").json()
    assert answer["success"] == {"step": [4], "train": [0.5], "eval": [None]}


@pytest.mark.database
def test_it_sends_only_the_points_after_the_one_that_is_known(staff: Client, run: TrainingRun) -> None:
    answer = staff.get(f"/runs/{run.pk}/progress.json?after=10").json()
    assert [step for step, _ in answer["points"]] == [20]


@pytest.mark.parametrize("after", ["x", "1.5", "99999999999", "--1", ""])
def test_a_step_that_is_no_number_is_refused(staff: Client, run: TrainingRun, after: str) -> None:
    answer = staff.get(f"/runs/{run.pk}/progress.json", {"after": after})
    assert answer.status_code == 400
    assert "not a step number" in answer.json()["error"]


def test_an_unknown_run_is_not_found(staff: Client) -> None:
    assert staff.get("/runs/1/progress.json").status_code == 404


def test_the_queries_do_not_grow_with_the_points(staff: Client, run, django_assert_num_queries) -> None:
    with CaptureQueriesContext(connection) as few:
        staff.get(f"/runs/{run.pk}/progress.json")
    MetricPoint.objects.bulk_create([MetricPoint(run=run, step=step, values={}) for step in range(30, 60)])
    with django_assert_num_queries(len(few)):
        staff.get(f"/runs/{run.pk}/progress.json")


def write_pace(run: TrainingRun, **pace: float) -> None:
    run.directory.mkdir(parents=True, exist_ok=True)
    now = time.time()
    whole = {"first_step": 1, "first_at": now - 50, "step": 11, "total": 31, "at": now, **pace}
    (run.directory / "stages.json").write_text(json.dumps({"stages": ["training"], "pace": whole}))


@pytest.mark.database
def test_the_rest_of_a_stage_takes_as_long_as_its_steps_so_far(staff: Client, run: TrainingRun) -> None:
    """The hour before its first step, loading and sampling, does not count."""
    TrainingRun.objects.update(started_at=timezone.now() - timedelta(hours=1))
    write_pace(run)
    assert staff.get(f"/runs/{run.pk}/progress.json").json()["eta_seconds"] == pytest.approx(100, abs=3)


def test_a_step_that_takes_long_does_not_bring_the_end_nearer_for_ever(run: TrainingRun) -> None:
    write_pace(run, first_at=time.time() - 650, at=time.time() - 600)
    assert eta_seconds(run, Stages.read(run.directory)) == pytest.approx(95, abs=1)


@pytest.mark.parametrize("pace", [{"step": 1}, {"total": 3}])
def test_the_end_is_not_guessed_without_a_measure(run: TrainingRun, pace: dict) -> None:
    assert eta_seconds(run, Stages.read(run.directory)) is None
    write_pace(run, **pace)
    assert eta_seconds(run, Stages.read(run.directory)) is None


def test_the_end_of_a_run_that_makes_way_for_requests_is_not_guessed(run: TrainingRun) -> None:
    write_pace(run)
    run.stage = PAUSED
    assert eta_seconds(run, Stages.read(run.directory)) is None


def test_the_end_of_a_run_that_is_over_is_not_guessed(run: TrainingRun) -> None:
    write_pace(run)
    run.state = TrainingRun.State.FAILED
    assert eta_seconds(run, Stages.read(run.directory)) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"stages": 3, "pace": null}', '{"stages": [], "pace": {"x": 1}}']
)
def test_a_damaged_file_of_stages_is_none(run: TrainingRun, text: str) -> None:
    run.directory.mkdir(parents=True)
    (run.directory / "stages.json").write_text(text)
    assert Stages.read(run.directory) == Stages((), None)


def test_the_log_starts_at_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"line {number:05} é\n" for number in range(2000)))
    tail = log_tail(path)
    assert len(tail.encode()) <= LOG_BYTES
    assert tail.startswith("line 0")
    assert tail.endswith("line 01999 é\n")
    assert "\ufffd" not in tail


def test_a_log_that_is_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    (tmp_path / "log.txt").symlink_to(tmp_path / "secret")
    assert log_tail(tmp_path / "log.txt") == ""
    assert log_tail(tmp_path) == ""
    assert log_tail(tmp_path / "none") == ""
