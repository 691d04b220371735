import pytest
from django.core.exceptions import ValidationError

from rl.models import ApiKey

pytestmark = pytest.mark.django_db


def test_a_key_is_found_by_itself_and_stored_as_a_hash_only():
    row, key = ApiKey.create(name="server", kind="secret")
    assert key.startswith("sk_")
    assert ApiKey.find(key) == row
    stored = ApiKey.objects.filter(pk=row.pk).values_list().get()
    assert key not in map(str, stored)


def test_an_unknown_key_is_not_found():
    assert ApiKey.find("sk_nobody") is None


def test_a_revoked_key_is_not_found():
    row, key = ApiKey.create(name="server", kind="secret")
    row.revoke()
    assert ApiKey.find(key) is None


def test_a_publishable_key_needs_an_origin():
    with pytest.raises(ValidationError, match="at least one origin"):
        ApiKey.create(name="shop", kind="publishable")


@pytest.mark.parametrize(
    "origin",
    ["shop.example", "https://shop.example/", "https://shop.example/path", "ftp://shop.example", "*", "null", 3],
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(ValidationError):
        ApiKey.create(name="shop", kind="publishable", allowed_origins=[origin])
