from __future__ import annotations

import pytest

from rl.data_formatter.languages import COMMON_WORDS, in_another_language, language_of

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
