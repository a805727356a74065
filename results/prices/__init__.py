"""What platforms cost: price lists, and how a configuration is disclosed."""
