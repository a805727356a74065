"""What replayed traces come to: responses of application sets, what held, score and price, IOmark's beside them."""
