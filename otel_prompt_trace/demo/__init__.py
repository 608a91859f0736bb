"""The demo: a small retrieval app over a handbook, with nothing to install and no network.

``handbook`` and ``retrieval`` find the text, ``model_server`` stands in for a model host on loopback and says so,
``conversation`` holds the questions of the second story. None of these modules knows how prompts are recorded.
"""
