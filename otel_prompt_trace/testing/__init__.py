"""For the tests of an application: what they record, in memory, with the same ids and times on every run.

:mod:`otel_prompt_trace.pytest_plugin` is the way in; nothing here needs pytest, or is loaded before a test uses it.
"""
