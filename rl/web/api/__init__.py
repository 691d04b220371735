"""The API: one file for each resource, and what all calls share."""
