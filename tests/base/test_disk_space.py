import logging
from pathlib import Path

import pytest

from rl import checks, tasks
from rl.base import disk_space


def test_a_shortage_is_a_sentence_with_both_sizes(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(
        disk_space.shutil, "disk_usage", lambda _: disk_space.shutil._ntuple_diskusage(10, 9, 700_000_000)
    )
    assert disk_space.shortage(tmp_path, 2**30) == f"667.6 MiB are free on the disk of {tmp_path}, less than 1.0 GiB"
    assert disk_space.shortage(tmp_path, 700_000_000) == ""
    assert not disk_space.is_full(tmp_path)


def test_too_little_room_is_told_by_check_and_log(settings, data_dir: Path, caplog: pytest.LogCaptureFixture):
    assert (checks.there_is_room_for_data(), tasks.watch_disk()) == ([], "")
    settings.MIN_FREE_BYTES = 2**50
    (message,) = checks.there_is_room_for_data()
    assert (message.id, "less than 1024.0 TiB (MIN_FREE_BYTES)" in message.msg) == ("rl.W003", True)
    with caplog.at_level(logging.WARNING):
        tasks.watch_disk()
    assert "less than 1024.0 TiB (MIN_FREE_BYTES)" in caplog.text


@pytest.mark.django_db
def test_the_dashboard_warns_of_too_little_room(client, bob, settings):
    client.force_login(bob)
    assert b"are refused" not in client.get("/").content
    settings.MIN_FREE_BYTES = 2**50
    assert b"When the disk is full, ratings and answers are refused" in client.get("/").content
