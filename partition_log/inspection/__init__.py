"""Reading a data folder without changing it: `musterd log`."""
