"""How passwords are kept: Argon2id, with what OWASP names as the least. It takes a sixth of the processor time of PBKDF2's
million rounds, which a site that many sign in to, or guess at, cannot spare; and memory, of which graphics cards that guess
have little."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class Argon2id(Argon2PasswordHasher):
    time_cost, memory_cost, parallelism = 2, 19_456, 1
