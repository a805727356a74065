"""WORM conformance: what a platform refuses, what it allows, and the evidence for both."""
