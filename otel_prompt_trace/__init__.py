"""Proof of what a language model was told."""
