"""Processes of the queue on PostgreSQL: each has connections of its own, though they are forks of one that had some."""

import json
from pathlib import Path

import pytest

from tests.operations.installations import empty

PROGRAM = """
import json, os
from django.db import connection
from rl.management.commands import qcluster

def backend():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        found = cursor.fetchone()[0]
    connection.close()  # as django-q does before it forks: the connection goes back into the pool
    return found

qcluster.bind()
before = [backend() for _ in range(6)]  # the pool has two, in turn
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, str(backend()).encode())
    os._exit(0)
child = int(os.read(reader, 100))
os.wait()
backend()  # the parent goes on
print(json.dumps({"before": before, "child": child}))
"""


@pytest.mark.process
def test_a_fork_talks_to_the_server_through_no_socket_of_its_parent(tmp_path: Path):
    with empty("postgresql", tmp_path / "data") as site:
        backends = json.loads(site.run("shell", "--no-imports", "-c", PROGRAM).stdout)
    assert backends["child"] not in backends["before"]
