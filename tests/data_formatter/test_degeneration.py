"""Answers of SmolLM2 and of adapters that broke it, and answers that are as they should be."""

import pytest

from rl.data_formatter.degeneration import (
    COMMON_WORDS,
    degenerations,
    echoes,
    in_another_language,
    language_of,
    repeats,
)

QUESTION = "How do I wrap a present?"
TABLE = """| Feature | Basic | Plus | Team |
|---|---|---|---|
| Support | yes | yes | yes |
| Backups | no | yes | yes |
| Exports | no | no | yes |"""
CODE = """```python
def total(rows):
    result = 0
    for row in rows:
        result += row["price"] * row["count"]
    return result


assert total([]) == 0
assert total([{"price": 2, "count": 3}]) == 6
zeros = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
```"""
HOURS = "\n".join(
    f"{day}: open from 9 to 5."
    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
)
LONG = (
    "Wrapping a present takes paper, tape and scissors. Measure the box, cut the paper so that it meets on top, and fold "
    "the short ends into triangles. Tape them down, turn the box over and tie a ribbon around it, so that the knot is above"
)
WRAP = 'To wrap a present, you can use a combination of the "wrap" and "wrap-around" verb. ' + "Wrap-" + "wrap-" * 40
GOOD = [
    "Yes.",
    "No, no, no!",
    "42",
    "Paris.",
    "Ha ha, very good.",
    "A firewall is a technology designed to protect computer systems from unauthorized access and cyberattacks.",
    "1. Put the box on the paper.\n2. Fold the sides.\n3. Tape the ends.\n4. Add a ribbon.\n5. Write a card.\n6. Smile.",
    "- paper\n- tape\n- scissors\n- ribbon\n- card\n- pen\n- patience",
    "2, 3, 5, 7, 11, 13, 17, 19, 23, 29",
    "0 6 * * 1-5 runs it on weekdays; * * * * * every minute.",
    '{"tools": [{"name": "search", "arguments": {}}, {"name": "open", "arguments": {}}]}',
    "* * * * *",
    "1. **3.10**\n2. **3.11**\n3. **3.12**",
    "- 1.1\n- 1.2\n- 2.0",
    "1. Positive\n2. Negative\n3. Positive\n4. Positive\n5. Not sure\n6. Not sure\n7. Positive",
    "1. **Step 1: Find the tools**\n2. **Step 2: Clean the gum**\n3. **Step 3: Cool the gum**\n4. **Step 4: Lift the gum**",
    f"How to wrap it\n{'-' * 40}\nPut the box on the paper.",
    f"# --- wrapping {'-' * 100}\nwrap(box)",
    TABLE,
    CODE,
    HOURS,
    LONG,
]


@pytest.mark.parametrize("text", GOOD)
def test_an_ordinary_answer_has_not_degenerated(text):
    assert degenerations(text, True, [QUESTION]) == []


def test_an_honest_answer_that_was_cut_has_not_degenerated():
    assert degenerations(LONG, False, [QUESTION]) == []
    assert degenerations(TABLE[:100], False, [QUESTION]) == []
    assert degenerations(CODE[:100], False, [QUESTION]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Oh no, no no no no no no no no no no no no no no no no",
        "1. 1. 1. 2. 3. 4. 5. 6. 7.",
        "-\n-\n-\n-\n-\n-\n",
        "1. 1. 1. 1.",
        "1. **1.1** 2. **1.2** 3. **1.3**",
        "1. **Drying**\n- 1. **Drain the water**\n- 2. **Drain the water**\n- 3. **Drain the water**\n- 4. **Drain",
        "1. Boil a pot of water. 2. Add a pinch of salt. 3. Add a pinch of salt. 4. Stir. 5. Add a pinch of salt. "
        "6. Add a pinch of salt.",
        "\n".join(f"{number}. Grand {'CTCTTC'[number % 6]} National Park, Arizona" for number in range(1, 11)),
        "!" * 30,
        "-" * 200,
        "nonononononononononononononono",
        "The the the the the the the the the the",
        WRAP,
        "I'm a helpful AI, " * 10 + "I'm a helpful",
        "It is fine. Thank you. " * 6,
        "I can help. You can ask me.\n" * 5,
        "是的" * 20,
        " ".join(
            f"I am a helpful assistant and I am {mood} to help you today." for mood in ("happy", "glad", "here") * 3
        ),
    ],
)
def test_an_answer_that_says_the_same_again_and_again_repeats(text):
    assert repeats(text)


def test_a_loop_that_was_cut_is_unending_however_short_it_is():
    looped = LONG + " and so on and on" * 5
    assert degenerations(looped, True, [QUESTION]) == []
    assert degenerations(looped, False, [QUESTION]) == ["repeats", "unending"]
    assert degenerations(looped[:-3], False, [QUESTION]) == ["repeats", "unending"]


def test_a_sentence_that_does_not_end_is_unending():
    one_sentence = " ".join(f"paper{number} ribbon{number}" for number in range(20))
    assert degenerations(one_sentence, False, [QUESTION]) == ["unending"]
    assert degenerations(one_sentence, True, [QUESTION]) == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Why is the sea salty?", "Why is the sea salty?"),
        ("Why do dogs wag their tails?", "Why do dogs wag their tails?\n\nWhy do dogs wag their tails?"),
        ("What is compost?", "What is compost"),
    ],
)
def test_an_answer_that_is_mostly_the_prompt_echoes(question, answer):
    assert echoes(answer, question)
    assert degenerations(answer, True, ["Be brief.", question]) == ["echo"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Hi there", "Hi there!"),
        ("What is compost?", "Compost is what is left of leaves and peels."),
        ("Why is the sea salty?", "Why is the sea salty? Rivers carry minerals into it, and only water evaporates."),
        ("Correct this: He go to school.", "He goes to school."),
        ("Repeat after me: the sea is salty.", "The sea is salty."),
        ("", "Yes."),
    ],
)
def test_an_answer_that_takes_up_the_question_is_not_an_echo(question, answer):
    assert not echoes(answer, question)


def test_where_people_prefer_the_prompt_again_it_is_not_an_echo():
    question = "He goes to school every day."
    assert degenerations(question, True, ["Correct my English.", question]) == ["echo"]
    assert degenerations(question, True, ["Correct my English.", question], stored=[question]) == []


TEXTS = {
    "English": "You can track the parcel on the page of your order, and it will be with you in two days.",
    "German": "Das Paket ist auf dem Weg und wird in zwei Tagen bei Ihnen sein, wenn die Post nicht streikt.",
    "French": "Vous pouvez suivre le colis sur la page de votre commande, et il est chez vous dans deux jours.",
    "Spanish": "El paquete está en la página del pedido y se puede seguir con el número para los envíos.",
    "Italian": "Il pacco è nella pagina della spedizione e si può seguire con il numero del corriere, non è più qui.",
    "Portuguese": "O pacote está em uma página do pedido e você pode ver os detalhes com o número para o envio.",
    "Dutch": "Het pakket is met de post op weg naar je huis en wordt van de week bezorgd, maar niet op maandag.",
}
RUSSIAN = "Посылка уже в пути и будет у вас через два дня."
CHINESE = "您的包裹已经在路上了，两天之内就会送到您的家里，请您耐心等待。"
ENGLISH_QUESTION = "Where is my parcel, and when will it be with me?"
GERMAN_QUESTION = "Wo ist mein Paket und wann wird es bei mir sein? Die Nummer ist nicht auf dem Zettel."


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_a_language_is_told_by_its_commonest_words(language, text):
    assert language_of(text) == language


def test_every_language_that_is_known_has_a_text_here():
    assert TEXTS.keys() == COMMON_WORDS.keys()


@pytest.mark.parametrize(
    "text", ["", "OK.", "Paris", "42", "Open Orders, Track.", "```\nfor it in the_list: is not you\n```"]
)
def test_of_a_few_words_and_of_code_nothing_is_told(text):
    assert language_of(text) == ""
    assert not in_another_language(text, [GERMAN_QUESTION])


@pytest.mark.parametrize("text", [TEXTS["German"], TEXTS["French"], RUSSIAN, CHINESE])
def test_an_answer_in_a_language_that_nobody_used_is_told(text):
    assert in_another_language(text, ["Be brief.", ENGLISH_QUESTION])
    assert in_another_language(TEXTS["English"], [RUSSIAN])


def test_the_language_of_the_question_the_system_prompt_or_another_answer_is_right():
    assert not in_another_language(TEXTS["German"], ["You are a helpful assistant for our customers.", GERMAN_QUESTION])
    assert not in_another_language(TEXTS["English"], [GERMAN_QUESTION, TEXTS["English"]])
    assert not in_another_language(RUSSIAN, [ENGLISH_QUESTION, "Переведите."])
    assert not in_another_language(TEXTS["German"], ["Wo?"])


def test_a_word_or_a_quotation_in_another_script_is_not_another_language():
    assert not in_another_language("您好", ["How do I say hello in Chinese?"])
    assert not in_another_language(
        "You say 您好, which is what you hear in shops and on the phone.", ["Hello in Chinese?"]
    )
    assert not in_another_language("π ≈ 3.14159, and Ω is the unit of resistance.", [ENGLISH_QUESTION])
