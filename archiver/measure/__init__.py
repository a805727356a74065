"""Numbers computed from rows: histograms, merged reports, and the resource usage of client and server."""
