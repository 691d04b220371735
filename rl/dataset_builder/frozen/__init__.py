"""Training sets: split, written once, and the feedback that they hold."""
