import pytest

from rl.base.errors import UsageError
from rl.hardware import precision
from tests.hardware.machines import LAPTOP, MAC, SERVER, with_gpu


@pytest.fixture(params=[True, False], ids=["with bitsandbytes", "without"])
def package(request, monkeypatch) -> bool:
    monkeypatch.setattr(precision.importlib.util, "find_spec", lambda name: object() if request.param else None)
    return request.param


@pytest.mark.parametrize("machine", [LAPTOP, MAC, SERVER])
def test_none_is_none_everywhere(machine, package):
    assert precision.in_4bit("none", machine) is False


def test_auto_takes_four_bits_where_they_work(package):
    assert precision.in_4bit("auto", SERVER) is package
    assert not precision.in_4bit("auto", LAPTOP)
    assert not precision.in_4bit("auto", with_gpu(24, "rocm"))


@pytest.mark.parametrize("machine", [LAPTOP, MAC, with_gpu(24, "rocm")])
def test_asking_for_what_cannot_work_is_refused(machine, package):
    with pytest.raises(UsageError, match="needs an NVIDIA GPU; use --no-quantization"):
        precision.in_4bit("4bit", machine)


def test_a_missing_package_is_named(package):
    if package:
        assert precision.in_4bit("4bit", SERVER)
    else:
        with pytest.raises(UsageError, match="pip install bitsandbytes"):
            precision.in_4bit("4bit", SERVER)
