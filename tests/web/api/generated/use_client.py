"""Uses the client that was generated into the package ``ratchet``: URL, KEY and the number of a run; prints what came."""

import json
import sys

from ratchet import AuthenticatedClient
from ratchet.api.feedback import list_feedback, send_feedback
from ratchet.api.traces import list_traces, store_traces
from ratchet.api.training import get_run
from ratchet.models import RatingIn, ScaleEnum, TraceIn

url, key, run = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True) as client:
    stored = store_traces.sync(client=client, body=TraceIn(agent="support-chat", prompt="Hello?", response="Hello."))
    rated = send_feedback.sync(
        client=client, body=RatingIn(trace=str(stored.id), rater="customer-1", scale=ScaleEnum.THUMB, value=1)
    )
    traces, feedback = list_traces.sync(client=client), list_feedback.sync(client=client)
    training = get_run.sync(int(run), client=client)
    told = {
        "responses": [trace.response for trace in traces.results],
        "values": [event.value for event in feedback.results],
        "rated": rated.normalised,
        "run": training.state.value,
    }
    sys.stdout.write(json.dumps(told))
