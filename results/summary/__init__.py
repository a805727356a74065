"""The summary of a run: its answer in one sentence, its key figures and its verdict, for a page and for a terminal."""
