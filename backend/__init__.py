"""The Django project: settings, addresses, and the set-up of a bare machine."""
