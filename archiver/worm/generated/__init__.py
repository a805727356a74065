"""Conformance sequences that are generated: combinations of how a record lives and how it is attacked."""
