"""A cluster of two nodes on this machine takes a run as its job."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from urllib.request import Request, urlopen

import psutil
import pytest

from tests.commands.environments import environment_of
from tests.commands.site import Site
from tests.ports import reserve_port

pytestmark = [pytest.mark.process, pytest.mark.slow]
START = """
from rl import dataset_builder
from rl.models import Agent
from rl.runs import run as runs, supervisor
agent = Agent.objects.get(name="support-chat")
config = agent.training_config("dpo").with_overrides({"max_steps": %d, "save_steps": 2})
run = runs.create(agent, method_name="dpo", config=config, options=runs.RunOptions(data=dataset_builder.DataOptions()))
supervisor.start(run)
"""


@dataclass(frozen=True)
class Cluster:
    address: str

    def jobs(self) -> list[dict]:
        with urlopen(f"{self.address}/api/jobs/", timeout=60) as answer:
            return [job for job in json.load(answer) if "manage.py" in job["entrypoint"]]

    def answers(self) -> bool:
        try:
            return self.jobs() == []
        except OSError:
            return False

    def takes(self, command: str) -> bool:
        """Its nodes come up after its dashboard."""
        body = json.dumps({"entrypoint": command}).encode()
        try:
            urlopen(Request(f"{self.address}/api/jobs/", body, {"Content-Type": "application/json"}), timeout=60)
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # The paths of its sockets may have 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}
        port, dashboard = reserve_port(), reserve_port()
        found = Cluster(f"http://127.0.0.1:{dashboard}")
        head = ["--head", "--port", str(port), "--dashboard-port", str(dashboard), "--dashboard-host", "127.0.0.1"]
        stack.enter_context(node([*head, "--include-dashboard", "true", "--temp-dir", folder], environment))
        if not comes_true(found.answers):
            pytest.skip("no Ray cluster comes up on this machine within ten minutes")
        stack.enter_context(node(["--address", f"127.0.0.1:{port}"], environment))
        if not comes_true(lambda: found.takes("true")):
            pytest.skip("the nodes of the Ray cluster take no job on this machine within ten minutes")
        yield found


@contextmanager
def node(options: list[str], environment: dict[str, str]) -> Iterator[None]:
    common = ["--block", "--num-cpus", "1", "--disable-usage-stats", "--object-store-memory", "80000000"]
    agent = ["--dashboard-agent-listen-port", str(reserve_port())]
    command = [environment_of("ray"), "-m", "ray.scripts.scripts", "start", *common, *agent, *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)
    try:
        yield
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        for each in [*family, process]:
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                each.kill()
        process.wait()


def comes_true(condition: Callable[[], bool], seconds: float = 600) -> bool:
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def on(site: Site, cluster: Cluster) -> dict[str, str]:
    """The settings of a site that uses the cluster; the nodes read the same ``.env``."""
    file = site.data.parent / "ray.env"
    keep = ("SECRET_KEY", "DEBUG", "DATA_DIR", "DATABASE_URL", "HF_HUB_OFFLINE", "OMP_NUM_THREADS")
    ray = {"TRAINING_EXECUTOR": "ray", "RAY_ADDRESS": cluster.address}
    file.write_text(
        "".join(f"{name}={value}\n" for name, value in ({n: site.environment()[n] for n in keep} | ray).items())
    )
    return {"ENV_FILE": str(file), **ray}


def test_a_run_is_a_job_of_the_cluster(site: Site, cluster: Cluster):
    of_others = {job["submission_id"] for job in cluster.jobs()}
    site.run("shell", "-c", START % 4, **on(site, cluster))
    site.wait_for("SELECT 1 FROM rl_trainingrun WHERE state = 'succeeded'", seconds=1800)
    [job] = (job for job in cluster.jobs() if job["submission_id"] not in of_others)
    assert "train_dpo --run 1 --attempt 1" in job["entrypoint"]
    assert "run-1-1-" in job["submission_id"]
    assert "SECRET_KEY" not in json.dumps(job)
    assert comes_true(
        lambda: (job["submission_id"], "SUCCEEDED") in [(one["submission_id"], one["status"]) for one in cluster.jobs()]
    )


def test_a_job_that_is_killed_is_seen_and_started_again(site: Site, cluster: Cluster):
    settings = on(site, cluster)
    site.run("shell", "-c", START % 60, **settings)
    (pid,) = site.wait_for("SELECT pid FROM rl_trainingrun WHERE step >= 3", seconds=1800)
    os.kill(pid, 9)
    deadline = time.monotonic() + 600
    while site.query("SELECT attempt FROM rl_trainingrun") == [(1,)] and time.monotonic() < deadline:
        site.run("shell", "-c", "from rl.runs import supervisor; supervisor.supervise()", **settings)
        time.sleep(0.5)
    assert site.query("SELECT attempt FROM rl_trainingrun") == [(2,)]
    assert any("run-1-2-" in job["submission_id"] for job in cluster.jobs())
    site.change("UPDATE rl_trainingrun SET cancel_requested = 1")
    site.wait_for("SELECT 1 FROM rl_trainingrun WHERE state = 'cancelled'", seconds=1800)
