"""Record of everything that runs left on platforms, and its removal."""
