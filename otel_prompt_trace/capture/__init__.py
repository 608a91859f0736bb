"""What an application touches: scopes that record a query, its stages, its calls and the pieces of its prompts.

``opening`` begins a query; ``query``, ``stage`` and ``call`` are the scopes; ``declaring`` holds :func:`declare`,
``offers`` what is declared outside a call, and ``placement`` asks the application's own function for a prompt.
``context`` finds the query and the call that are open here, ``spans`` are the spans of ours, ``provisional`` is what
can be said of a call before it ends, ``guard`` keeps every fault of ours away from the application. ``middleware``
gives the qid back to the caller, ``feedback`` adds to a record later.
"""
