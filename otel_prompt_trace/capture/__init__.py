"""What an application touches: scopes that record a query, its stages, its calls and the pieces of its prompts.

``query``, ``stage`` and ``call`` are the scopes, ``declaring`` holds :func:`declare` and what is offered to a query,
``context`` finds the query and the call that are open here, ``spans`` are ours and ``attributes`` the small things on
them, ``guard`` keeps every fault of ours away from the application,
``middleware`` gives the qid back to the caller, ``processor`` lets the tracer provider's flush and shutdown reach us.
"""
