"""Where versions are served: deployments on targets that applications talk to."""
