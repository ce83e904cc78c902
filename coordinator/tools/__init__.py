"""Commands that read a data folder."""
