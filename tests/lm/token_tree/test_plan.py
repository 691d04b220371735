import numpy as np
import pytest

from rl.lm.token_tree.plan import IGNORED, QUERIES, Tokens, TokenTree

pytestmark = pytest.mark.learn


def rows(*texts: list[int]) -> list[Tokens]:
    return [np.array(text) for text in texts]


def random_rows(seed: int) -> list[Tokens]:
    """Of few different tokens, so that they share beginnings of all lengths."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 2, generator.integers(1, 9)) for _ in range(12)]


def test_a_shared_beginning_stands_in_the_tree_once_but_for_its_last_token():
    tree = TokenTree(rows([5, 6, 7, 8], [5, 6, 7, 9, 1], [2, 3]))
    assert tree.size == 4 + 3 + 2
    assert tree.flatten(rows([5, 6, 7, 8], [5, 6, 7, 9, 1], [2, 3]), -1).tolist() == [[2, 3, 5, 6, 7, 8, 7, 9, 1]]
    assert tree.positions.tolist() == [[0, 1, 0, 1, 2, 3, 2, 3, 4]]
    last = tree.branches[-1]
    assert (last.before, last.tokens, last.path) == (2, 3, ((2, 4), (6, 9)))


def test_equal_rows_and_a_row_that_another_begins_with_add_nothing():
    tree = TokenTree(rows([1, 2, 3], [1, 2, 3], [1, 2], [1, 2, 3, 4]))
    assert tree.size == 4
    assert [at.tolist() for at in tree.rows] == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1, 2, 3]]


@pytest.mark.parametrize("seed", range(20))
def test_every_row_can_be_read_from_the_tree_and_every_token_is_followed_by_one_label(seed: int):
    texts = random_rows(seed)
    tree = TokenTree(texts)
    flat = tree.flatten(texts, -1)[0].numpy()
    labels = [np.append(text[1:], IGNORED) for text in texts]
    following = tree.flatten(labels, IGNORED)[0].numpy()
    for text, at, label in zip(texts, tree.rows, labels, strict=True):
        assert flat[at].tolist() == text.tolist()
        assert tree.positions[0].numpy()[at].tolist() == list(range(len(text)))
        assert following[at][:-1].tolist() == label[:-1].tolist()


@pytest.mark.parametrize("window", [None, 1, 3, 1000])
def test_each_token_sees_those_before_it_in_its_row_and_within_the_window(window: int | None):
    long = list(range(QUERIES + 40))
    texts = rows(long, [*long[:90], 7, 8], [*long[:3], 9])
    tree = TokenTree(texts)
    seen: dict[int, list[int]] = {}
    for part in tree.stretches(window):
        keys = np.concatenate([np.arange(start, stop) for start, stop in part.path])
        hidden = np.zeros((part.queries, len(keys)), bool)
        hidden[:, len(keys) - part.mask.shape[1] :] = part.mask.isinf().numpy()
        seen |= {part.start + query: keys[~row].tolist() for query, row in enumerate(hidden)}
    expected = {
        int(token): at[max(0, number + 1 - window) if window else 0 : number + 1].tolist()
        for at in tree.rows
        for number, token in enumerate(at)
    }
    assert seen == expected
