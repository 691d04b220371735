"""OpenAI's fine-tuning API: files, jobs, checkpoints and graders at the addresses that its clients call, with its own fields
and errors. A job is a training run like any other.

Imports: base, collect, dataset_builder, faults, models, operations, registered, runs, serving, versions,
    web; Django.
"""
