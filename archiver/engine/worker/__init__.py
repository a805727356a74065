"""One worker process in one phase: its assignment, its clients, its stop rule."""
