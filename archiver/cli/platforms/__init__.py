"""Commands about platforms: platform, doctor, serve, tsm-library."""
