"""Residuals across calls: what the gaps of many calls have in common, and who took in what stood as a gap before.

Read it in this order: ``units`` (a text as a row of digests), ``sketch`` (a call without its texts); then ``remainder``
(a producer that takes whatever nobody else declared) with ``memory`` (what it keeps) and ``suspicion`` (what it says);
and ``parts`` (what a gap is made of), ``clusters`` (parts that belong together), ``shapes`` (constant, continuing,
growing, one-off, and the likely cause) and ``suggest`` (the line that declares it).

Invariants:

- No text is kept between calls: only digests, lengths and places.
- The order is that of time; the same calls give the same result.
- The work is linear in the characters of the calls, and no two gaps are compared with each other.
"""
