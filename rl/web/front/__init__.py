"""What stands before Django: takes requests in under ASGI, within limits, and gives a thread to those that are there whole.

Nothing that a client may do slowly (send its head, send its body, read its answer, wait for a run) holds a thread."""
