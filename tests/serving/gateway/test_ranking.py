from rl.serving.gateway.best_of import rank


def test_the_best_rated_answer_comes_first_and_what_is_empty_or_in_a_loop_last():
    texts = ["A loaf in a box.", "", "In a box. " * 9, "In a bread box, at room temperature."]
    assert rank(texts, [0.1, 0.9, 0.8, 0.2]) == [3, 0, 1, 2]
