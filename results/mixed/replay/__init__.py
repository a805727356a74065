"""Results of replayed traces: response times of application sets, verdict, score and price, next to IOmark's."""
