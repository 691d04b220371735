import pytest

pytestmark = pytest.mark.process


def test_status_counts_what_waits_and_what_is_needed(site):
    (agent,) = site.json("online_learner", "status")["agents"]
    assert (agent["agent"], agent["enabled"], agent["min_samples"]) == ("support-chat", False, 100)
    assert agent["buffer_size"] > 300
    assert agent["should_retrain"] is True


def test_a_tick_does_nothing_while_online_learning_is_off(site):
    assert site.json("online_learner", "tick") == {"queued": []}


def test_a_tick_queues_one_run_and_a_second_tick_none(site):
    assert site.json("online_learner", "tick", ENABLE_ONLINE_LEARNING="1") == {"queued": [1]}
    assert site.json("online_learner", "tick", ENABLE_ONLINE_LEARNING="1") == {"queued": []}
    assert site.query('SELECT state, "trigger" FROM rl_trainingrun') == [("queued", "online")]
    assert site.query("SELECT COUNT(*) FROM django_q_ormq") == [(1,)]


def test_run_now_queues_a_run_whether_due_or_not(site):
    assert site.json("online_learner", "run-now", "--agent", "support-chat") == {"run": 1}


def test_run_now_needs_an_agent(site):
    assert "--agent is missing" in site.run("online_learner", "run-now", expect=2).stderr


def test_a_tick_takes_no_agent(site):
    assert "leave --agent out" in site.run("online_learner", "tick", "--agent", "support-chat", expect=2).stderr


def test_the_table_is_for_people(site):
    assert "support-chat" in site.run("online_learner", "status").stdout
