"""Where versions are served: deployments on targets that applications talk to.

Imports: base, collect, config, export, faults, hardware, models, operations, versions; Django.
"""
