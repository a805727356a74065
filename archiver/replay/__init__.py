"""The replay of traces: what was asked of one object store, asked again of another, in its order and at its times."""
