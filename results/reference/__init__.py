"""Published results of other studies, as data (JSON), and the one that every report shows."""
