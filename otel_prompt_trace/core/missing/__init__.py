"""Reasons for not found: how a text that stands nowhere as declared most likely stands instead.

hint      what is said of one piece, and in which words
escapes   one layer of HTML, JSON, Python, URL or Markdown escapes, taken off
folding   a text without what changes on the way, with the way back to the original's offsets
haystack  the folded prompt: what of it nobody owns, and the places of what is found there
changes   which change turns one text into the other
cuts      texts of which only a part stands, or that stand in two parts
explain   the search, for all missing texts of a prompt at once
"""
