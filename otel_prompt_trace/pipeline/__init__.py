"""From an event on the application's thread to an object in the store.

    capture → recorder → spool → shipper → store

``frames`` states the byte format of the spool, ``spool`` writes it (``spool_file`` is one file of it, ``rotation``
chooses and prepares them, ``spool_folder`` is where they lie, ``syncing`` waits for the disk), ``reading`` reads it
back (after a crash, or beside a running process). ``recorder`` is the one place where events enter. ``shipper`` is the
thread that delivers: ``waiting`` is its bounded index, ``delivery`` seals batches of queries and writes them, here or
in a process of its own, ``adopting`` takes over what dead processes left, ``watching`` does so as a sidecar, ``drain``
once. ``memory`` stands in for the spool where no folder can be written (``fallback`` goes there and back), and
``accounting`` keeps the books: stored, spooled or lost.
"""
