"""The pure core: events, record, census, verdict, checks.

Nothing in this folder imports OpenTelemetry or does I/O; everything is a function of its arguments.
Read it in this order: ``qid`` and ``text`` (the alphabet), ``events`` (what is written), ``record`` (what is
read back), ``pieces`` and ``prompt`` (who put what where), ``assignment`` and ``census`` (who owns which
character), ``verdict``, ``checks``, ``grade`` (what may be said of it).
"""
