from rl.serving.dialects.parts import PartReader, PartStep, read_whole


def chunk(**delta):
    return {"choices": [{"index": 0, "delta": delta}]}


def call(index, name="", arguments="", call_id=""):
    named = {"name": name} if name else {}
    return {"index": index, "id": call_id, "function": {**named, "arguments": arguments}}


def read(*chunks):
    """The steps with their kinds and pieces, and the parts."""
    reader = PartReader()
    step = [event for piece in chunks for event in reader.take(piece)]
    step += reader.end()
    return [(event.step, event.part.kind, event.piece) for event in step], reader.parts


def test_thoughts_and_text_follow_each_other():
    steps, parts = read(chunk(reasoning_content="h"), chunk(reasoning="m"), chunk(content="Hi"), chunk(content="."))
    assert [(part.kind, part.text, part.number) for part in parts] == [("thoughts", "hm", 0), ("text", "Hi.", 1)]
    assert steps[:4] == [
        (PartStep.BEGIN, "thoughts", ""),
        (PartStep.GO_ON, "thoughts", "h"),
        (PartStep.GO_ON, "thoughts", "m"),
        (PartStep.END, "thoughts", ""),
    ]


def test_a_name_in_pieces_is_whole_when_its_call_begins():
    begun = []
    reader = PartReader()
    for piece in (chunk(tool_calls=[call(0, "tra", call_id="c1")]), chunk(tool_calls=[call(0, "ck", "{}")])):
        begun += [event.part.name for event in reader.take(piece) if event.step is PartStep.BEGIN]
    assert begun == ["track"]


def test_calls_that_are_told_in_turns_and_text_between_them_are_whole():
    steps, parts = read(
        chunk(tool_calls=[call(0, "a", "{", "c1")]),
        chunk(tool_calls=[call(1, "b", "[", "c2")]),
        chunk(content="Wait."),
        chunk(tool_calls=[call(0, arguments="}"), call(1, arguments="]")]),
    )
    assert [(part.name, part.call_id, part.text) for part in parts] == [
        ("a", "c1", "{}"),
        ("b", "c2", "[]"),
        ("", "", "Wait."),
    ]
    begun = [kind for step, kind, _ in steps if step is PartStep.BEGIN]
    ended = [kind for step, kind, _ in steps if step is PartStep.END]
    assert begun == ended == ["call", "call", "text"]


def test_a_call_without_arguments_or_id_is_a_call():
    _, (part,) = read(chunk(tool_calls=[call(0, "now")]))
    assert (part.name, part.call_id, part.text) == ("now", "call_0", "")


def test_of_several_choices_the_first_is_read():
    _, parts = read({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]})
    assert [part.text for part in parts] == ["yes"]


def test_a_whole_completion_has_the_same_parts():
    calls = [
        {"id": "c", "function": {"name": "a", "arguments": "{}"}},
        {"id": "d", "function": {"name": "b", "arguments": ""}},
    ]
    message = {"content": "Hi", "reasoning_content": "hm", "tool_calls": calls}
    logprobs = {"content": [{"token": "Hi", "logprob": -1.0}]}
    completion = {
        "choices": [{"message": message, "finish_reason": "tool_calls", "logprobs": logprobs}],
        "usage": {"prompt_tokens": 1},
    }
    reader = read_whole(completion)
    assert [(part.kind, part.name or part.text) for part in reader.parts] == [
        ("thoughts", "hm"),
        ("text", "Hi"),
        ("call", "a"),
        ("call", "b"),
    ]
    assert (reader.finish_reason, reader.usage) == ("tool_calls", {"prompt_tokens": 1})
    assert reader.parts[1].logprobs == logprobs["content"]


def test_a_completion_without_a_choice_has_no_part():
    assert read_whole({"choices": []}).parts == []


def test_each_piece_of_a_text_has_its_own_logprobs():
    reader, piece = PartReader(), {"token": "Hi", "logprob": -0.1}
    steps = [*reader.take({"choices": [{"delta": {"content": "Hi"}, "logprobs": {"content": [piece]}}]})]
    steps += reader.take(chunk(content="."))
    assert [list(step.logprobs) for step in steps if step.step is PartStep.GO_ON] == [[piece], []]
    assert steps[0].part.logprobs == [piece]
