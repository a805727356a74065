"""Which calls the store refuses: locks of S3 versions, management classes of TSM archives, and the refusals."""
