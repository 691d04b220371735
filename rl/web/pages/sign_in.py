"""The page where people sign in."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.db import transaction
from django.http import HttpResponse


class SignIn(LoginView):
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """What is written where the password was right, in one transaction: each waits for its turn to write."""
        with transaction.atomic():
            answer = super().form_valid(form)
            self.request.session.save()
        return answer
