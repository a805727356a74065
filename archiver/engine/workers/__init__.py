"""Workers as the coordinator sees them: processes of this machine, or of a Dask cluster."""
