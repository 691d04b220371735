"""Experiments on an agent's traffic: from the observations of their arms to a verdict, and what follows from it."""
