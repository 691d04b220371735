"""The tool ``search`` over the web, by a provider of search results or an endpoint of your own. No Django, no torch."""
