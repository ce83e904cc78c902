"""Keys of the configuration, where their values come from, and their help."""
