import pytest
from django_q.models import OrmQ, Schedule

from rl import tasks
from rl.models import TrainingRun
from rl.runs import supervisor

pytestmark = [pytest.mark.database, pytest.mark.django_db]


def test_the_schedules_are_made_once_and_stay_as_a_person_set_them():
    tasks.ensure_schedules()
    Schedule.objects.filter(name="consider_retraining").update(minutes=30)
    tasks.ensure_schedules()
    each_minute = dict(Schedule.objects.filter(schedule_type=Schedule.MINUTES).values_list("name", "minutes"))
    assert each_minute.pop("consider_retraining") == 30
    assert set(each_minute) == {
        "supervise_runs",
        "supervise_servers",
        "look_at_experiments",
        "look_at_promotions",
        "look_at_raters",
        "look_at_duels",
        "make_second_answers",
        "deliver_answers",
        "deliver_webhooks",
        "fetch_sources",
        "watch_disk",
    }
    assert set(each_minute.values()) == {1}


@pytest.mark.parametrize("name", ["calculate_rewards", "forget_pending_spans", "delete_expired"])
def test_what_can_wait_is_done_once_a_day(name: str):
    tasks.ensure_schedules()
    assert Schedule.objects.get(name=name).schedule_type == Schedule.DAILY


def test_every_schedule_names_a_function_that_exists():
    tasks.ensure_schedules()
    for path in Schedule.objects.values_list("func", flat=True):
        module, _, name = path.rpartition(".")
        assert module == "rl.tasks"
        assert callable(getattr(tasks, name))


def test_a_task_for_a_run_that_is_gone_does_nothing():
    assert tasks.start_run(12345) is False


def test_a_task_for_a_cancelled_run_does_nothing(agent):
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    run.cancel()
    assert tasks.start_run(run.pk) is False


@pytest.mark.django_db(transaction=True)
def test_enqueuing_puts_one_message_with_only_the_run_id_into_the_queue(agent):
    OrmQ.objects.all().delete()
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    supervisor.enqueue(run)
    (message,) = OrmQ.objects.all()
    task = message.task
    assert (task["func"], task["args"]) == ("rl.tasks.start_run", (run.pk,))
