"""Real clients of OpenTelemetry deliver to a running site. They live in ``.venv-otel``, which is made once."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl.from_systems.sources import langfuse
from rl.from_systems.sources.asking import asking, basic
from rl.from_systems.sources.registered import FeedbackSource
from rl.models import Feedback, PendingSpan, Trace
from rl.models.traces import is_broken_off
from tests.commands.environments import environment_of
from tests.commands.otel.model_server import ANSWER, model_server
from tests.from_systems.sources.langfuse_double import KEY, LangfuseDouble, generation, score
from tests.from_systems.sources.open_webui import serving
from tests.serving.gateway.node_clients import with_clients
from tests.web.front.in_thread import front_in_thread

PROGRAMS = Path(__file__).parent / "otel"
# Installing the clients takes longer than all else.
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="session")
def client_python() -> Path:
    return environment_of("otel")


@pytest.fixture
def site(transactional_db: None, data_dir, settings) -> Iterator[str]:
    with front_in_thread(settings) as url:
        yield url


@pytest.fixture
def run(client_python: Path, site: str, secret_key: str, tmp_path: Path):
    def run(program: str, **more: str) -> str:
        with model_server() as models:
            interpreter, script = [client_python], PROGRAMS / program
            if script.suffix == ".mjs":
                interpreter, script = ["node"], tmp_path / with_clients(script, tmp_path, script.parent)
            environment = {
                "PATH": os.environ["PATH"],
                "OPENAI_BASE_URL": models,
                "OPENAI_API_KEY": "none",
                "OTEL_SERVICE_NAME": "support-chat",
                "OTEL_EXPORTER_OTLP_ENDPOINT": site,
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{secret_key}",
                "LANGFUSE_BASE_URL": site,
                "LANGFUSE_PUBLIC_KEY": "support-chat",
                "LANGFUSE_SECRET_KEY": secret_key,
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
                **more,
            }
            done = subprocess.run(
                [*interpreter, script],
                env=environment,
                capture_output=True,
                text=True,
                timeout=1800,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def roles(trace: Trace) -> list[str]:
    return [message["role"] for message in trace.prompt]


@pytest.mark.database
@pytest.mark.parametrize("program", ["openai_sdk.py", "traceloop_sdk.py"])
def test_the_openai_sdk(run, program: str):
    assert run(program) == ""
    plain, run_of_tool, streamed = Trace.objects.order_by("occurred_at")
    assert [one.external_id for one in (plain, run_of_tool, streamed)] == [f"chatcmpl-{n}" for n in (1, 3, 4)]
    assert {one.agent.name for one in Trace.objects.all()} == {"support-chat"}
    assert plain.prompt == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Good morning?"}]
    assert (plain.response, plain.tokens_in, plain.tokens_out) == (ANSWER, 12, 4)
    assert (roles(run_of_tool), run_of_tool.llm_calls) == (["user"], 2)
    (call,) = run_of_tool.tool_calls
    assert (call["call_id"], call["arguments"]) == ("call_2", {"number": "4711"})
    assert streamed.response == ANSWER
    judged = Feedback.objects.get()
    assert (judged.trace, judged.rater, judged.value) == (plain, "system:Politeness", 0.75)
    assert not PendingSpan.objects.exists()


ANSWERS = {
    "Plain.": ([], 1, []),
    "Think.": ([], 1, ["hm"]),
    "Call.": (["in Bonn"], 2, []),
    "Call as of old.": (["in Bonn"], 2, []),
    "Stream.": ([], 1, []),
    "Think and stream.": ([], 1, ["hm"]),
}


def test_the_openai_sdk_with_openinference(run):
    """Results of tools, calls of the model, and thoughts."""
    assert run("openinference_sdk.py") == ""
    told = {trace.prompt[-1]["content"]: trace for trace in Trace.objects.all()}
    assert len(told) == Trace.objects.count()
    broken = [told.pop(question) for question in ("Break.", "Break with an error.")]
    assert {
        question: (
            [call["result"] for call in one.tool_calls],
            one.llm_calls,
            [s["content"] for s in one.reasoning_steps],
        )
        for question, one in told.items()
    } == ANSWERS
    assert {one.response for one in told.values()} == {ANSWER}
    assert [(one.response, is_broken_off(one.details)) for one in broken] == [("It arrives ", True)] * 2


def test_langchain_with_openinference(run):
    assert run("langchain_agent.py", OTEL_EXPORTER_OTLP_COMPRESSION="gzip") == ""
    told = Trace.objects.get()
    assert (told.response, roles(told), told.session_id) == (ANSWER, ["system", "user"], "talk-9")
    (call,) = told.tool_calls
    assert (call["tool_name"], call["result"], call["success"]) == ("track", "4711 is in Bonn", True)
    assert (call["arguments"], bool(call["call_id"])) == ({"number": "4711"}, True)
    assert call["duration_ms"] is not None


@pytest.mark.database
@pytest.mark.parametrize("program", ["langfuse_sdk.py", "node/langfuse.mjs"])
def test_the_sdks_of_langfuse(run, program: str):
    """Nothing but the address and the keys is other than for Langfuse itself."""
    run(program)
    plain, looped, streamed, own = Trace.objects.order_by("occurred_at")
    assert {one.agent.name for one in Trace.objects.all()} == {"support-chat"}
    assert (roles(plain), plain.response, plain.tokens_in, plain.tokens_out) == (["system", "user"], ANSWER, 12, 4)
    assert (roles(looped), looped.response, looped.llm_calls, looped.session_id) == (["user"], ANSWER, 2, "talk-9")
    (call,) = looped.tool_calls
    assert (call["arguments"], call["result"]) == ({"number": "4711"}, "4711 is in Bonn")
    assert (streamed.response, own.response, own.prompt[0]["content"]) == (ANSWER, "Yes.", "By hand?")
    liked, disliked = Feedback.objects.order_by("-raw_value")
    assert (liked.trace, liked.value, liked.notes, liked.rater) == (looped, 1, "nice", "langfuse:userfeedback")
    assert (disliked.trace, disliked.value, disliked.rater) == (own, 0, "langfuse:thumbs")
    assert not PendingSpan.objects.exists()


def test_the_ai_sdk_of_vercel(run):
    run("node/ai_sdk.mjs")
    plain, looped, streamed = Trace.objects.order_by("occurred_at")
    assert (roles(plain), plain.response, plain.external_id) == (["system", "user"], ANSWER, "chatcmpl-1")
    (call,) = looped.tool_calls
    assert (looped.response, looped.llm_calls, call["result"]) == (ANSWER, 2, "4711 is in Bonn")
    assert call["duration_ms"] is not None
    assert [step["content"] for step in streamed.reasoning_steps] == ["hm"]


def test_the_sdk_of_langfuse_asks_as_the_source_does(client_python: Path, data_dir, monkeypatch):
    """And reads what stands in for Langfuse in other tests."""
    double, since = LangfuseDouble(), 1769947200
    double.scores, double.generations = [score()], [generation()]
    with serving(double):
        names = {"LANGFUSE_BASE_URL": double.url, "LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}
        command = [client_python, PROGRAMS / "langfuse_reads.py", str(since)]
        subprocess.run(command, env={"PATH": os.environ["PATH"], **names}, check=True)
        by_sdk = list(double.asked)
        double.asked.clear()
        monkeypatch.setenv("LANGFUSE_KEYS", KEY)
        with asking(FeedbackSource("x", "langfuse", double.url, "LANGFUSE_KEYS", "x"), 60, basic) as client:
            (entry,) = langfuse.list_all(client, since).entries
            langfuse.fetch(client, entry[1])
    assert double.asked == by_sdk
