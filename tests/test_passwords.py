"""How passwords are kept, with the hashers of the product and not those of the other tests."""

import pytest
from django.contrib.auth.hashers import check_password, identify_hasher, make_password
from django.contrib.auth.models import User
from django.test import Client

from backend import settings as product

SECRET = "three horses in a boat"


@pytest.fixture(autouse=True)
def hashers(settings):
    settings.PASSWORD_HASHERS = product.PASSWORD_HASHERS


def test_a_new_password_is_kept_by_argon2id():
    kept = make_password(SECRET)
    assert kept.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")
    assert check_password(SECRET, kept)
    assert not check_password(SECRET.upper(), kept)


def test_whoever_was_there_before_signs_in_and_is_kept_by_argon2id_from_then_on(client: Client, db):
    old = make_password(SECRET, hasher="pbkdf2_sha256")
    user = User.objects.create(username="eva", password=old)
    answer = client.post("/login/", {"username": "eva", "password": SECRET})
    assert answer.status_code == 302
    user.refresh_from_db()
    assert identify_hasher(user.password).algorithm == "argon2"
