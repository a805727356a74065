"""The TSM backend: the client API of IBM Storage Protect and of the DR550, through IBM's library or through ours."""

from backends.tsm.backend import TsmBackend, TsmOptions, TsmRequest

__all__ = ["TsmBackend", "TsmOptions", "TsmRequest"]
