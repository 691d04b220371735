"""Learning from episodes of an agent with tools."""
