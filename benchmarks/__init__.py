"""What recording costs an application, and a census whoever takes it, as ratios measured within one run.

    measuring  two ways of doing one thing, timed by turns, and how they compare
    spans      what a span costs with diversion, against the same span without
    wire       what a request costs with wire capture, against the same request without
    calls      what a model call costs its thread, beside what others take for it (subjects, peers)
    gil        the same beside other threads, and what the background manages there
    census     what a census costs, against the simplest one and against reading the prompt once
    __main__   the command: ``python -m benchmarks spans``

A time says something of one machine at one moment, and is never compared across runs. A ratio of two things that took
turns in one process may be.
"""
