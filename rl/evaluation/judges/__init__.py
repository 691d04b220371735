"""Who compares fresh answers: a judge that has learned from people's labels, or a model on a server that the operator
registered. Both are checked on people's labels in the same way.

- ``duels``: what is compared, and what comes of it
- ``servers``: the operator's JUDGES_FILE
- ``asking``: what a model on a server is asked, and what its reply means
"""
