"""Numbers from rows: histograms, merged reports, and what client and server used."""
