"""Workers from the coordinator's side: processes of this machine, or of a Dask cluster."""
