"""The dialects in which clients speak to the gateway, each turned into OpenAI's chat completions and back.

What is behind them (experiments, the best of several answers, runs of tools, traces) knows chat completions alone."""
