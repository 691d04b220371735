import pytest

from rl.dataset_builder.frozen.splitting import is_held_out, stable_hash

KEYS = [f"prompt-{number}" for number in range(4000)]


def test_a_prompt_is_on_the_same_side_for_ever():
    # printf 'support-chat\0q001' | sha256sum | cut -c1-16
    assert stable_hash("support-chat", "q001") == 0xBC148E43E2263055


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_about_the_share_asked_for_is_held_out(share):
    held_out = sum(is_held_out("support-chat", key, share) for key in KEYS)
    assert held_out / len(KEYS) == pytest.approx(share, abs=0.03)


def test_a_smaller_share_holds_out_a_subset():
    few = {key for key in KEYS if is_held_out("support-chat", key, 0.1)}
    many = {key for key in KEYS if is_held_out("support-chat", key, 0.3)}
    assert few < many


def test_nothing_is_held_out_of_a_share_of_zero():
    assert not any(is_held_out("support-chat", key, 0) for key in KEYS)


def test_agents_split_differently_but_the_case_of_a_name_does_not_matter():
    one = [is_held_out("support-chat", key, 0.5) for key in KEYS]
    assert one != [is_held_out("FILER", key, 0.5) for key in KEYS]
    assert one == [is_held_out("Support-Chat", key, 0.5) for key in KEYS]
