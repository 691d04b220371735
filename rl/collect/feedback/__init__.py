"""What is said about answers: checked events, and the one place that writes them."""
