"""The pure core: events, record, census, verdict, checks.

Nothing in this folder imports OpenTelemetry or does I/O; everything is a function of its arguments.
Read it in this order:

- ``qid`` and ``text``: the alphabet. ``events`` and ``attributes``: what is written, and what spans carry of it.
  ``keys``: under which name it lies in a store.
- ``parameters``: what each field of a request is. ``bodies`` and ``replies``: requests and answers as they went over
  the wire. ``exchanges`` and ``request_parts``: what they become in an event, and what of it the model saw.
- ``seal``: from events as captured to events as stored. ``cut_events``, ``cutting``, ``withheld`` and ``redaction``:
  what a policy takes out of them; ``credentials``, ``secret_places`` and ``secret_urls``: what never stays. ``beside``
  and ``contained``: what weaker evidence adds to a request as sent.
- ``record`` and ``call``: what is read back. ``sightings`` and ``conventions``: what spans, hooks and log records tell
  of a call.
- ``pieces``, ``prompt``, ``placement`` and ``segments``: who put what where. ``rendering``: where it stands in what was
  sent. ``assignment`` (with ``intervals`` and ``words``) and ``census``: who owns which character. ``missing``: why a
  piece was not found, and where it would stand. ``overlaps``: what of it is said twice.
- ``verdict``, ``again`` and ``derive``, ``checks`` and ``grade``: what may be said of it. ``published``: how
  it is printed.
- ``packing`` and ``chunks``: which chunks fit, which are there. ``usage``, ``counting``, ``token_identity`` and
  ``template``: tokens, as told and as counted.
- ``residuals``: what the gaps of many calls have in common, and who takes in what others leave. ``diagnosis``: which
  factor was zero. ``diff``: what changed between two prompts.
"""
