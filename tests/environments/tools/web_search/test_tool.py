from concurrent.futures import ThreadPoolExecutor

import pytest

from rl.base.errors import UsageError
from rl.environments.tools import ToolRegistry
from rl.environments.tools.registry import ToolFailed
from rl.environments.tools.search import SearchDocuments
from rl.environments.tools.web_search.backend import LARGEST_ANSWER
from rl.environments.tools.web_search.settings import SearchSettings
from rl.environments.tools.web_search.tool import search_tool
from tests.environments.tools.web_search.search_double import KEY, Reply, search_double

pytestmark = pytest.mark.process


def test_the_agent_is_told_what_the_tool_takes(make_tool):
    shape = ToolRegistry([make_tool()]).schemas[0]["function"]
    assert shape["name"] == "search"
    assert shape["parameters"]["required"] == ["query"]
    assert shape["parameters"]["properties"]["query"]["description"] == "Words to look for."


def test_corpus_searches_documents(tmp_path):
    tool = search_tool(SearchSettings(max_snippet_chars=7), tmp_path / "searches")
    assert isinstance(tool, SearchDocuments)
    tool.use(["the tower is tall"])
    assert tool.run(query="tower") == "[1] the tow"


def test_a_missing_key_is_known_before_the_training(make_tool, monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY")
    with pytest.raises(UsageError, match="the key for tavily must be in the environment variable TAVILY_API_KEY"):
        make_tool()


def test_a_key_with_a_line_break_is_refused_and_not_shown(make_tool, monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", "abc\ndef")
    with pytest.raises(UsageError) as refusal:
        make_tool()
    assert "abc" not in str(refusal.value)


def test_passages_are_cut(make_tool):
    assert make_tool(max_snippet_chars=5).run(query="tower").splitlines()[1] == "It is"


def test_fewer_results_are_the_best_of_the_same(double, make_tool):
    tool = make_tool()
    whole = tool.run(query="tower")
    assert whole.startswith(tool.run(query="tower", top_k=1))
    assert tool.run(query="tower", top_k=10) == whole
    assert len(double.requests) == 1


def test_a_question_is_asked_once_even_by_another_tool(double, make_tool):
    first = make_tool().run(query="tower")
    assert make_tool(max_snippet_chars=1000).run(query="  tower\n") == first
    assert len(double.requests) == 1


def test_threads_with_the_same_question_ask_it_once(double, make_tool):
    tool = make_tool()
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: tool.run(query="tower"), range(8)))
    assert len(answers) == len(double.requests) == 1


def test_neither_key_nor_failure_is_stored(double, make_tool, tmp_path):
    double.script = [Reply(400)]
    with pytest.raises(ToolFailed, match="refused the query"):
        make_tool().run(query="tower")
    make_tool().run(query="tower")
    stored = list((tmp_path / "searches").glob("*.json"))
    assert len(stored) == 1
    assert KEY not in stored[0].read_text()


def test_a_busy_server_is_asked_again_when_it_says(double, make_tool, pauses):
    double.script = [Reply(429, {"detail": "slow down"}, {"Retry-After": "7"})]
    assert "330 metres" in make_tool().run(query="tower")
    assert pauses == [7.0]


def test_a_server_that_wants_to_be_left_alone_for_long_is(double, make_tool, pauses):
    double.script = [Reply(429, {}, {"Retry-After": "3600"})]
    with pytest.raises(ToolFailed, match="no more searches now"):
        make_tool().run(query="tower")
    assert pauses == []
    assert len(double.requests) == 1


def test_a_server_that_fails_twice_is_asked_three_times(double, make_tool, pauses):
    double.script = [Reply(500), Reply(503)]
    assert "330 metres" in make_tool().run(query="tower")
    assert pauses == [0.8, 1.6]


def test_after_the_last_try_the_failure_is_told(double, make_tool, pauses, caplog):
    double.script = [Reply(500)] * 9
    with pytest.raises(ToolFailed, match=r"the search service has a failure of its own \(HTTP 500\)") as failure:
        make_tool(max_retries=1).run(query="tower")
    assert len(double.requests) == 2
    assert not failure.value.timed_out
    assert KEY not in caplog.text


def test_a_server_that_hangs_takes_its_time_and_no_more(double, make_tool, pauses):
    double.script = ["hang"] * 2
    with pytest.raises(ToolFailed, match="did not answer within 0.1 seconds") as failure:
        make_tool(timeout=0.1, max_retries=1).run(query="tower")
    assert failure.value.timed_out
    assert len(double.requests) == 2


def test_a_server_that_hung_once_may_answer_then(double, make_tool):
    double.script = ["hang", "close"]
    assert "330 metres" in make_tool(timeout=1.0).run(query="tower")


def test_a_server_that_hangs_up_each_time_cannot_be_reached(double, make_tool):
    double.script = ["close"] * 3
    with pytest.raises(ToolFailed, match="cannot be reached"):
        make_tool().run(query="tower")


def test_a_redirect_takes_the_key_nowhere(double, make_tool):
    with search_double() as elsewhere:
        double.script = [Reply(307, b"", {"Location": f"{elsewhere.url.replace('127.0.0.1', 'localhost')}/tavily"})]
        with pytest.raises(ToolFailed, match="redirects to another address"):
            make_tool().run(query="tower")
        assert elsewhere.requests == []
    assert len(double.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"\xff\xfe", b"null", b"[]", b'"text"', b'{"results": {}}', b"[" * 100_000, b"1" * 5000]
    + [b'{"organic": "x"}', b'{"webPages": 3}'],
)
@pytest.mark.parametrize("provider", ["tavily", "serper", "bing"])
def test_what_is_no_answer_of_the_providers_is_a_sentence(double, make_tool, provider, body):
    double.script = [Reply(200, body)]
    with pytest.raises(ToolFailed, match="an answer that cannot be read"):
        make_tool(provider).run(query="tower")


def test_a_huge_answer_is_not_read(double, make_tool):
    double.script = [Reply(200, b'{"results": []}' + b" " * LARGEST_ANSWER)]
    with pytest.raises(ToolFailed, match="too long"):
        make_tool().run(query="tower")


@pytest.mark.parametrize(("query", "said"), [(" \n", "empty"), ("a" * 401, "longer than 400")])
def test_a_query_that_no_provider_takes_is_not_sent(double, make_tool, query, said):
    with pytest.raises(ToolFailed, match=said):
        make_tool().run(query=query)
    assert double.requests == []


def test_half_a_surrogate_pair_in_a_query_is_no_crash(make_tool):
    assert "330 metres" in make_tool("bing").run(query="tower \ud83d")


def test_the_limit_counts_every_request_also_the_repeated_ones(double, make_tool, pauses):
    double.script = [Reply(500)]
    tool = make_tool(rate_limit_per_min=2)
    tool.run(query="one")
    tool.run(query="two")
    assert pauses[0] == 0.8
    assert 50 < pauses[1] <= 60


def test_bing_is_asked_as_it_documents_and_its_results_are_read(double, make_tool):
    shown = make_tool("bing", default_params={"mkt": "en-US", "textDecorations": False}).run(query="Eiffel & co")
    assert shown.splitlines()[:2] == ["[1] Eiffel Tower — https://tower.example/", "It is 330 metres tall."]
    assert double.requests[0].params == {
        "count": ["5"],
        "mkt": ["en-US"],
        "textDecorations": ["false"],
        "q": ["Eiffel & co"],
    }


def test_an_answer_without_web_pages_means_that_nothing_was_found(make_tool):
    assert make_tool("bing").run(query="nothing at all") == "nothing found"


def test_the_empty_body_by_which_bing_slows_attackers_is_a_failure(double, make_tool):
    double.script = [Reply(200, b"")]
    with pytest.raises(ToolFailed, match="cannot be read"):
        make_tool("bing").run(query="tower")


def test_tavily_is_asked_as_it_documents_and_its_results_are_read(double, make_tool):
    shown = make_tool("tavily").run(query="height of the Eiffel Tower")
    assert shown == (
        "[1] Eiffel Tower — https://tower.example/\nIt is 330 metres tall.\n"
        "[2] Seine — https://river.example/\nThe Seine flows through Paris."
    )
    assert double.requests[0].params == {"max_results": 5, "query": "height of the Eiffel Tower"}


def test_its_own_answer_comes_first_and_the_settings_parameters_go_along(double, make_tool):
    shown = make_tool("tavily", default_params={"include_answer": True, "max_results": 1}).run(query="tower")
    assert shown == "[1]\nIt is 330 m.\n[2] Eiffel Tower — https://tower.example/\nIt is 330 metres tall."


def test_a_wrong_key_is_a_sentence_without_the_key(double, make_tool, monkeypatch, caplog):
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-wrong")
    with pytest.raises(ToolFailed, match=r"does not accept the key.*HTTP 401") as failure:
        make_tool("tavily").run(query="tower")
    assert "tvly-wrong" not in str(failure.value) + caplog.text
    assert len(double.requests) == 1


def test_serper_is_asked_as_it_documents_and_the_answer_box_comes_first(double, make_tool):
    shown = make_tool("serper").run(query="height of the Eiffel Tower")
    assert shown.splitlines()[:4] == [
        "[1] Eiffel Tower / Height — https://box.example/",
        "330 m",
        "[2] Eiffel Tower — https://tower.example/",
        "It is 330 metres tall.",
    ]
    assert double.requests[0].params == {"num": 5, "q": "height of the Eiffel Tower"}


def test_a_wrong_key_is_a_sentence(make_tool, monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "wrong")
    with pytest.raises(ToolFailed, match="does not accept the key"):
        make_tool("serper").run(query="tower")
