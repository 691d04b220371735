from uuid import UUID

import pytest

from rl.base.answer_ids import as_id, stored_name

ID = UUID("e91a3a1d-6146-4c11-9d53-145c5aa52a99")


@pytest.mark.parametrize("name", [str(ID), f"resp_{ID.hex}", f"msg_{ID.hex}", f"cmpl-{ID}", f"chatcmpl-{ID}"])
def test_an_answer_is_known_by_its_id_in_each_dialect(name: str):
    assert as_id(name) == ID
    assert stored_name(name) == str(ID)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ID.hex,
        f"{{{ID}}}",
        str(ID).upper(),
        f"resp_{ID}",
        f"resp_{ID.hex}0",
        f"resp_{ID.hex.upper()}",
        f"rs_{ID.hex}",
        "chatcmpl-9f3Kq2bT",
        "resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
    ],
)
def test_other_names_stay_as_they_are(name: str):
    assert as_id(name) is None
    assert stored_name(name) == name
