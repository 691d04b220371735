"""How data comes in: feedback events, captured answers, foreign files."""
