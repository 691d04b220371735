"""Tells other systems what happened, at addresses that the operator named in WEBHOOKS_FILE.

``events`` writes a row for each endpoint in the transaction of what it tells of; the queue delivers the rows."""
