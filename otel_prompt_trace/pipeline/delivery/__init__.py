"""Delivery: from the queries that are due to the objects in the store, many at a time.

Beside a thread that computes, whoever lets go of the interpreter's lock gets it back a switch interval later, so that
the number of times counts by which it is let go of, and not how long each takes. ``delivering`` seals a batch of
queries and hands it over. ``together`` compresses it in one go, and writes it on threads that wait ``side_by_side``;
or ``process`` passes the whole batch in one write to a process of its own, where ``child`` does the same with it.
``link`` is that process and the connection to it, ``messages`` what the two say to each other.
"""
