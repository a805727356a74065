"""Workers on many machines, through Dask distributed.

One idea: the worker function, its assignments and its reports are those of one machine. Dask transports them, and only
this package uses Dask. ``cluster.py`` finds the workers, ``workers.py`` gives them phases, and ``channel.py`` is the
worker's end.
"""
