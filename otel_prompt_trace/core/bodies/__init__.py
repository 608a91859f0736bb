"""Request bodies of model APIs, as they were sent.

apis    which API a request belongs to: by its path, and by the shape that the path promises
scan    JSON with the place of every string
parts   what of a body is content, what the model sees besides, what is binary, and what is envelope
runs    a body as it is stored: runs whose concatenation is the body, and what was cut out of them
blobs   what is stored beside a body, and what stands in its place
cutting which stretches of a body must not be kept
"""
