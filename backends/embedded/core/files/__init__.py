"""The files of the store except its catalogue: segments with the objects' bytes, their digests, and secret files."""
