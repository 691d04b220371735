import json
from functools import partial

import pytest

from tests.commands.printing import printed, refused

run = partial(printed, "modules")


def test_it_prints_a_folder_as_a_tree():
    lines = run("rl/training").splitlines()
    assert lines[0].split()[0] == "training/"
    assert [line.split()[0] for line in lines if line.split()[0] in ("ppo/", "math.py")] == ["ppo/", "math.py"]
    assert all(len(line.split()) > 1 for line in lines)


def test_without_a_folder_it_prints_the_application():
    assert run().startswith("rl/ ")
    assert "migrations" not in run()


def test_captions_end_where_their_first_sentence_ends():
    document = json.loads(run("rl/rewards", "--json"))
    captions = {module["path"]: module["caption"] for module in document["modules"]}
    assert captions["rl/rewards/"].endswith("and their weighted mean.")


@pytest.mark.parametrize("folder", ["rl/nowhere", "rl/tasks.py", "../.."])
def test_what_is_not_a_folder_of_the_project_is_refused(folder: str):
    refused(run, "is not a folder of Ratchet; try rl or rl/collect", folder)
