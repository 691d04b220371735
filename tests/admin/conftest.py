"""Somebody who may do everything on these pages, signed in."""

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client
