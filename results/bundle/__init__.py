"""Files for confirming a published result independently: conformance evidence, audit bundles.

A manifest names everything in a bundle with its SHA-256. The one hash over these names is what is published.
"""
