"""A decision between platforms: what is required, what was found, and a recommendation with its condition."""
