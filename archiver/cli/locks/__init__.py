"""Commands about locks: worm, ledger, audit, cleanup."""
