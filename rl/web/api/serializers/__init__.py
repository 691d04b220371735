"""What goes in and out of the API, one file for each resource."""
