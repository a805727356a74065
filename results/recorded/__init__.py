"""What a run recorded: its database, and the one value that readers get of it."""
