"""Where server resource usage comes from: one module per kind of source, chosen by ``--watch``."""
