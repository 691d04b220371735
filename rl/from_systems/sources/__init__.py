"""Systems that people talk in, as Open WebUI: each is asked every minute for what they said of answers since last time, or
sends it at once. The operator registers them in SOURCES_FILE. Their rows are read as those of their files.

Imports: base, collect, config, environments, models, web; Django.
"""
