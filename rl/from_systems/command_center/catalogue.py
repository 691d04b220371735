"""The widgets that Command Center's catalogue has, and what each is good for, in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    shows: str
    good_for: str


CATALOGUE: Mapping[str, Entry] = {
    "alerts": Entry("alarms with their severity and state", "what needs attention now"),
    "category-bar": Entry("one bar for each category", "ranking machines, shifts or areas"),
    "chatstream": Entry("messages of people and assistants", "what was said about an event"),
    "comparison": Entry("two or more values beside each other", "differences between devices or periods"),
    "composition": Entry("the parts of a whole", "shares of a total"),
    "diagnosticpanel": Entry("checks of a device and their results", "finding the cause of a fault"),
    "distribution": Entry("how values spread", "outliers and usual ranges"),
    "edgedevicepanel": Entry("one device with its readings and state", "the details of a single device"),
    "eventlogstream": Entry("events in the order in which they came", "what happened, line by line"),
    "flow-sankey": Entry("flows from sources to sinks, as wide as they are large", "where energy or material goes"),
    "kpi": Entry("one number with its unit and its change", "a single value at a glance"),
    "matrix-heatmap": Entry("two dimensions by colour", "patterns by hour, day or machine"),
    "peoplehexgrid": Entry("people as a grid of cells", "who is where, and in which role"),
    "peoplenetwork": Entry("people and their ties", "who works with whom"),
    "peopleview": Entry("people with role, shift and state", "staff on duty"),
    "supplychainglobe": Entry("sites and routes on a globe", "suppliers and transports"),
    "timeline": Entry("spans of time, one below the other", "when states or work began and ended"),
    "trend": Entry("one value over time", "how a value develops"),
    "trend-multi-line": Entry("several values over the same time", "devices or phases compared over time"),
    "trends-cumulative": Entry("totals that add up over time", "consumption since a date"),
    "uncertaintypanel": Entry("what is not known, and how sure the rest is", "answers that rest on little data"),
}
