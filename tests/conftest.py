"""Fixtures that more than one folder of tests uses."""

pytest_plugins = ["tests.seaweed", "tests.binaries.building", "pytester"]
