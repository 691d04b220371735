"""Graders as clients send them."""

from typing import Any

from rl.from_systems.openai_tuning.graders import run, validate

Json = dict[str, Any]


def string_check(**fields: Any) -> Json:
    texts = {"input": "{{ sample.output_text }}", "reference": "{{ item.answer }}"}
    return {"type": "string_check", "name": "right", "operation": "eq", **texts, **fields}


def similarity(metric: str, **fields: Any) -> Json:
    texts = {"input": "{{ sample.output_text }}", "reference": "{{ item.answer }}"}
    return {"type": "text_similarity", "name": "alike", "evaluation_metric": metric, **texts, **fields}


def python(source: str, **fields: Any) -> Json:
    return {"type": "python", "name": "own", "source": source, **fields}


def score_model(**fields: Any) -> Json:
    asked = [{"role": "user", "content": "How good is {{ sample.output_text }}?"}]
    return {"type": "score_model", "name": "liked", "model": "careful", "input": asked, **fields}


def label_model(**fields: Any) -> Json:
    asked = [{"role": "developer", "content": [{"type": "input_text", "text": "Is {{ sample.output_text }} kind?"}]}]
    labels = {"labels": ["kind", "rude"], "passing_labels": ["kind"]}
    return {"type": "label_model", "name": "kind", "model": "careful", "input": asked, **labels, **fields}


def multi(calculate_output: str, **graders: Json) -> Json:
    return {"type": "multi", "name": "all", "graders": graders, "calculate_output": calculate_output}


def raised(response: Json) -> dict[str, Any]:
    """The flags and reasons that are there."""
    return {name: value for name, value in response["metadata"]["errors"].items() if value}


def grade(grader: Json, sample: str, **item: Any) -> Json:
    return run(validate(grader), item, sample)
