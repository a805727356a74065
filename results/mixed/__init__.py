"""Results of workloads that ran together on one store: tiles, their programme and its spikes, score and search."""
