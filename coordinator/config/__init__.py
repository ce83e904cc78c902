"""Keys of the configuration, the sources of their values, and their help."""
