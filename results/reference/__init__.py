"""Published results of other studies, as data (JSON), and the study that every report shows."""
