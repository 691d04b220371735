import inspect
import re
from dataclasses import replace

from rl import checks
from rl.config import METHODS
from rl.rewards import REWARDS


def ids(messages) -> list[str]:
    return [message.id for message in messages]


def test_an_installation_as_it_comes_has_nothing_to_complain_about():
    for check in (
        checks.queue_leases_outlive_tasks,
        checks.data_directory_is_writable,
        checks.registered_modules_exist,
        checks.custom_rewards_can_be_loaded,
    ):
        assert check() == []


def test_a_lease_shorter_than_a_task_may_take_is_an_error(settings):
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "retry": 300}
    assert ids(checks.queue_leases_outlive_tasks()) == ["rl.E001"]


def test_a_data_directory_that_is_not_there_is_an_error(settings, tmp_path):
    settings.DATA_DIR = tmp_path / "gone"
    (message,) = checks.data_directory_is_writable()
    assert message.id == "rl.E002"
    assert "DATA_DIR" in message.hint


def test_a_registered_module_that_does_not_exist_is_an_error(monkeypatch):
    monkeypatch.setitem(METHODS, "ghost", replace(METHODS["dpo"], module="rl.training.ghost"))
    (message,) = checks.registered_modules_exist()
    assert (message.id, "rl.training.ghost" in message.msg) == ("rl.E003", True)


def test_a_registered_class_is_looked_up_in_its_module(monkeypatch):
    monkeypatch.setitem(REWARDS, "ghost", "rl.rewards.ghost.GhostReward")
    (message,) = checks.registered_modules_exist()
    assert (message.id, "rl.rewards.ghost.GhostReward" in message.msg) == ("rl.E003", True)


def test_a_custom_reward_that_cannot_be_loaded_is_an_error(settings):
    settings.CUSTOM_REWARDS = {"brief": "tests.rewards.records.Length"}
    assert checks.custom_rewards_can_be_loaded() == []
    settings.CUSTOM_REWARDS = {"brief": "no.such.module.Reward"}
    (message,) = checks.custom_rewards_can_be_loaded()
    assert (message.id, "brief=no.such.module.Reward" in message.msg) == ("rl.E004", True)


def test_a_proxy_whose_address_all_clients_would_share_is_a_warning(settings):
    assert checks.clients_are_told_apart() == []
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert ids(checks.clients_are_told_apart()) == ["rl.W005"]
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "NUM_PROXIES": 1}
    assert checks.clients_are_told_apart() == []


def test_no_two_checks_have_the_same_id():
    code = inspect.getsource(checks)
    found = re.findall(r'id="(rl\.[EW]\d+)"', code)
    assert len(set(found)) == len(found)
