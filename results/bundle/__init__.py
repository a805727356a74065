"""What somebody else needs to confirm a published result without us: conformance evidence, audit bundles.

One idea: everything in a bundle is named with its SHA-256, and the one hash over these names is what is published.
"""
