"""Spans of an application that was not changed: their content goes to the payload, small spans go out.

    sampler    sees start attributes before any limit cuts them; keeps model calls that would be dropped
    doors      the class that a started span is given: every way in which content reaches a span leads through it
    state      what one span carried, and where it stands: its entry, its query, the model calls around it
    entry      the qid of a request that nobody opened a query for
    calls      which call a model-call span tells of
    writing    from a span that ends to events
    logs       the same for log records
    propagator gives the qid back in the response of an instrumented web framework
    hook       the GenAI completion hook: full objects, also where no content is on spans
    awaiting   attaches a provider that is set after recording began
    provider   puts all of it on a tracer provider, and takes it off again

Only ``provider`` knows private names of the SDK; each is guarded, and what does not fit is left alone and named.
"""
