"""Workers on many machines, through Dask distributed.

One idea: the worker function, its assignments and its reports are those of one machine; Dask carries them, and nothing
else is known of it outside this package. ``cluster.py`` finds the workers, ``workers.py`` gives them phases,
``channel.py`` is their end.
"""
