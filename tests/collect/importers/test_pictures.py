import pytest

from rl.base.errors import BadFile
from rl.collect.importers import openai_chat, trl
from tests.collect.importers.reading import said
from tests.collect.importers.test_any_record import ANSWER, PAIR, ROW, noted

SEEN = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {}}]
HEARD = [{"type": "input_audio"}, {"type": "text", "text": "?"}]


@pytest.mark.parametrize(
    ("module", "row", "column"),
    [
        (trl, {**ROW, "images": ["river.png"]}, "images"),
        (trl, {**PAIR, "image": {"bytes": "x"}}, "image"),
        (openai_chat, {"messages": [said("user", SEEN), ANSWER]}, "messages"),
        (openai_chat, {"messages": [said("user", HEARD), ANSWER]}, "messages"),
    ],
)
def test_a_file_of_answers_about_pictures_or_sounds_is_refused(tmp_path, module, row, column):
    account = noted(tmp_path, row, module=module)
    assert account.columns[column] == {"holds pictures or sounds, which no row shows": 1}
    with pytest.raises(BadFile, match="leave these records out, or say --allow-unread"):
        account.refuse_unread(tmp_path)
