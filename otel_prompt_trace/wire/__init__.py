"""Wire capture: what was really sent to a model host, and what came back, read off the HTTP clients.

    rules      which requests are looked at at all
    place      whose a request is: the query, the call, the model-call span, or the entry that it is sent in
    sent       which call it is of: a further attempt, or a call of its own
    exchange   one attempt on the wire: its request and its response, recorded as they pass
    outermost  of several captured layers only the outermost one records
    patching   wraps a library's function when the library is imported, and unwraps it again
    layers/    one module for each library

A layer reads buffered bodies, replaces none, and lets streams flow at the application's own pace.
"""
