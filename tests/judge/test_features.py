"""What a judge sees of an answer."""

import numpy as np
import pytest
import torch
from peft import PeftModel

from rl.base.records import silent
from rl.judge.features import Reader, features_of
from rl.judge.form import form_of
from rl.lm import loading
from rl.lm.trunk import layers_of
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

CONVERSATIONS = [
    ([{"role": "user", "content": "Where is my parcel?"}], "Open Orders and choose Track."),
    ([{"role": "user", "content": "Where is my parcel?"}], "We are very sorry, and ask you to be patient."),
    ([{"role": "user", "content": "Hello"}], "Hi."),
]


@pytest.fixture(scope="module")
def loaded(tiny_base):
    return loading.load_tokenizer(str(tiny_base)), loading.load_base(str(tiny_base), "fp32").eval()


def see(loaded, conversations, most: int = 256):
    tokenizer, model = loaded
    return features_of(model, tokenizer, conversations, max_length=most, report=silent)


def test_an_answer_is_its_mean_embedding_its_last_state_its_length_and_its_form(loaded):
    tokenizer, model = loaded
    seen = see(loaded, CONVERSATIONS[:1])[0]
    prompt, text = CONVERSATIONS[0]
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"]
    whole = tokenizer.apply_chat_template([*prompt, {"role": "assistant", "content": text}])["input_ids"]
    whole.pop()  # the new line behind the end of the turn
    answer = whole[len(ids) :]
    width = model.config.hidden_size
    embedded = model.get_input_embeddings()(torch.tensor(answer)).mean(0).detach()
    np.testing.assert_allclose(seen[:width], embedded, atol=1e-5)
    with torch.inference_mode():
        states = model(torch.tensor([whole]), output_hidden_states=True).hidden_states
    middle = states[(len(layers_of(model)) - 1) // 2 + 1]
    np.testing.assert_allclose(seen[width : 2 * width], middle[0, -1], atol=1e-4)
    assert seen[2 * width] == pytest.approx(np.log(len(answer)))
    np.testing.assert_allclose(seen[2 * width + 1 :], form_of("Where is my parcel?", text), rtol=1e-6)


def test_answers_are_seen_alike_alone_and_together(loaded):
    together = see(loaded, CONVERSATIONS)
    alone = np.concatenate([see(loaded, [conversation]) for conversation in CONVERSATIONS])
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_the_prompt_of_several_answers_is_computed_once(loaded):
    tokens = []
    hook = layers_of(loaded[1])[0].register_forward_hook(lambda module, inputs, output: tokens.append(output.shape))
    try:
        see(loaded, CONVERSATIONS[:1])
        once = tokens[-1][1]
        see(loaded, CONVERSATIONS[:1] * 3)
    finally:
        hook.remove()
    assert tokens[-1][:2] == (1, once)


def test_an_adapter_is_left_aside(loaded, tiny_base, tmp_path):
    adapter = build_adapter(tmp_path, tiny_base, seed=3)
    with loading.with_weights(loaded[1], adapter) as adapted:
        assert isinstance(adapted, PeftModel)
        seen = features_of(adapted, loaded[0], CONVERSATIONS, max_length=256, report=silent)
    np.testing.assert_allclose(seen, see(loaded, CONVERSATIONS), atol=1e-5)


def test_what_is_too_long_loses_its_beginning(loaded):
    long = [([{"role": "user", "content": "Where is my parcel? " * 60}], "Open Orders.")]
    assert np.isfinite(see(loaded, long, most=64)).all()


def test_the_model_runs_whole_again_afterwards(loaded):
    see(loaded, CONVERSATIONS)
    assert loaded[1](torch.tensor([[1, 2, 3]])).logits.shape[1] == 3


def test_a_base_model_is_loaded_by_its_name(loaded, tiny_base):
    reader = Reader(str(tiny_base), max_length=256, report=silent, precision="fp32")
    np.testing.assert_allclose(reader.features(CONVERSATIONS, silent), see(loaded, CONVERSATIONS), atol=1e-5)
