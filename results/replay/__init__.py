"""Results of replayed traces: responses of application sets, verdict, score and price, compared with IOmark's."""
