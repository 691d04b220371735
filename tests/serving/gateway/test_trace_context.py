import pytest
from starlette.datastructures import Headers

from rl.serving.gateway.trace_context import TraceContext, read_context
from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def read(*parents: str, states: tuple[str, ...] = ()) -> TraceContext | None:
    named = [*(("traceparent", parent) for parent in parents), *(("tracestate", state) for state in states)]
    return read_context(Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in named]))


def state_of(*states: str) -> str | None:
    context = read(PARENT, states=states)
    assert context is not None
    return context.headers().get("tracestate")


def test_the_answer_is_a_span_of_its_own_below_the_client_s():
    first, second = read(PARENT), read(PARENT)
    assert first is not None
    assert second is not None
    assert first.details() == {"trace_id": TRACE, "span_id": first.span_id, "parent_span_id": SPAN}
    assert first.headers() == {"traceparent": f"00-{TRACE}-{first.span_id}-01"}
    assert len({SPAN, first.span_id, second.span_id}) == 3
    assert read(first.headers()["traceparent"]) is not None


@pytest.mark.parametrize(("given", "passed_on"), [("00", "00"), ("01", "01"), ("03", "03"), ("ff", "03"), ("fc", "00")])
def test_flags_that_are_not_known_are_not_passed_on(given: str, passed_on: str):
    context = read(f"00-{TRACE}-{SPAN}-{given}")
    assert context is not None
    assert context.headers()["traceparent"].endswith(f"-{passed_on}")


@pytest.mark.parametrize("parent", [f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes"])
def test_a_later_version_is_read_as_far_as_it_is_known(parent: str):
    context = read(parent)
    assert context is not None
    assert context.headers()["traceparent"] == f"00-{TRACE}-{context.span_id}-01"


@pytest.mark.parametrize(
    "parents",
    [
        (),
        ("",),
        (PARENT, PARENT),
        (f"ff-{TRACE}-{SPAN}-01",),
        (f"{PARENT}-more",),
        (f"{PARENT}-",),
        (f"cc-{TRACE}-{SPAN}-01.more",),
        (f"00-{'0' * 32}-{SPAN}-01",),
        (f"00-{TRACE}-{'0' * 16}-01",),
        (PARENT.upper(),),
        (f"00-{TRACE[:-1]}-{SPAN}-01",),
        (f"00-{TRACE}-{SPAN}",),
        (f"00-{TRACE}-{SPAN}-1",),
        (f"00-{TRACE}-{SPAN}-0g",),
        (f"0-{TRACE}-{SPAN}-01",),
        (f"{PARENT}\n",),
        ("\xb2" * 55,),
        ("x" * 60_000,),
    ],
    ids=range(18),
)
def test_what_is_invalid_is_ignored_with_its_state(parents: tuple[str, ...]):
    assert read(*parents, states=("a=1",)) is None


def test_a_state_is_passed_on_as_it_came_where_it_is_short():
    assert state_of("vendor=a b;c, other@x=1") == "vendor=a b;c, other@x=1"
    assert state_of("a=1", "b=2") == "a=1,b=2"
    assert state_of("a" * 512) == "a" * 512
    for states in ((), ("",), ("a" * 513,), ("a" * 300, "b" * 300), ("a=\xe9",), ("a=\x07",)):
        assert state_of(*states) is None


@pytest.mark.process
@pytest.mark.parametrize("stream", [False, True])
def test_the_server_and_the_trace_know_of_it(gateway: Gateway, upstream: UpstreamDouble, stream: bool):
    headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
    answer = gateway.say(stream=stream, extra_headers=headers)
    answer_id = [chunk.id for chunk in answer][0] if stream else answer.id
    kept = gateway.trace(answer_id)["details"]["trace_context"]
    assert kept == {"trace_id": TRACE, "span_id": kept["span_id"], "parent_span_id": SPAN}
    head = upstream.heads[-1]
    assert (head["traceparent"], head["tracestate"]) == (f"00-{TRACE}-{kept['span_id']}-01", "vendor=1")


@pytest.mark.process
def test_an_invalid_one_changes_nothing(gateway: Gateway, upstream: UpstreamDouble):
    answer = gateway.say(extra_headers={"traceparent": PARENT.upper(), "tracestate": "vendor=1"})
    assert "trace_context" not in gateway.trace(answer.id)["details"]
    assert upstream.heads[-1].keys().isdisjoint({"traceparent", "tracestate"})
