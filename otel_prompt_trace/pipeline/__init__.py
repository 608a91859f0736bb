"""From an event on the application's thread to an object in the store.

    capture → recorder → spool → shipper → store

``frames`` states the byte format of the spool, ``spool`` writes it (``spool_file`` is one file of it), ``reading``
reads it back (after a crash, or beside a running process), ``recorder`` is the one place where events enter,
``shipper`` is the thread that delivers, ``drain`` delivers what dead processes left, ``memory`` stands in for the
spool where no folder can be written, and ``accounting`` keeps the books: stored, spooled or lost.
"""
