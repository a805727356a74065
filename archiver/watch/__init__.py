"""Sources of server resource usage: one module for each kind, selected by ``--watch``."""
