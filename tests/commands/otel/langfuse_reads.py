"""What Langfuse's own SDK asks for, and whether it can read what it is answered."""

import sys
from datetime import UTC, datetime

from langfuse import get_client

api = get_client().api
since = datetime.fromtimestamp(int(sys.argv[1]), UTC)
scores = api.scores.get_many(limit=100, fields="details,subject,annotation", from_timestamp=since)
fields = "core,basic,io,model,usage"
rows = api.observations.get_many(trace_id=scores.data[0].subject.id, type="GENERATION", fields=fields, limit=100)
assert (scores.data[0].value, scores.data[0].author_user_id) == (True, "ann")
assert (rows.data[0].type, rows.data[0].usage_details["input"]) == ("GENERATION", 12)
