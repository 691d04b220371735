"""An OpenAI-compatible server in front of whatever serves the versions; an ASGI application of its own, beside Django.

Each request is answered by the version that the running experiment gives its user, and each answer becomes a trace whose id
is the id of the response.
"""
