"""Files for independent confirmation of a published result: conformance evidence and audit bundles.

A manifest lists every part of a bundle with its SHA-256. The user publishes the SHA-256 of the manifest. A new
bundle is verified at once, and removed if it would be refused.
"""
