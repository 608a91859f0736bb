"""The pure core: events, record, census, verdict, checks.

Nothing in this folder imports OpenTelemetry or does I/O; everything is a function of its arguments.
Read it in this order:

- ``qid`` and ``text``: the alphabet. ``events``: what is written. ``seal`` and ``cutting``: from events as captured to
  events as stored, and what a policy takes out of them.
- ``record``: what is read back. ``sightings`` and ``conventions``: what spans, hooks and log records tell of a call.
- ``pieces``, ``prompt``, ``placement`` and ``segments``: who put what where. ``assignment`` (with ``intervals`` and
  ``words``) and ``census``: who owns which character. ``missing``: why a piece was not found, and where it would stand.
  ``overlaps``: what of it is said twice.
- ``verdict``, ``again`` and ``derive``, ``checks`` and ``grade``: what may be said of it. ``published``: how
  it is printed.
- ``packing`` and ``chunks``: which chunks fit, which are there. ``usage``, ``counting``, ``token_identity`` and
  ``template``: tokens, as told and as counted.
- ``diagnosis``: which factor was zero. ``diff``: what changed between two prompts.
"""
