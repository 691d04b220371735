"""OCD: decisions of agents, rewarded by what came of them, with a formula for each type of agent.

Imports: base, collect, config, data_formatter, dataset_builder, models, rewards, scoring, web; Django."""
