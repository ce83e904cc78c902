"""The configuration: where a value comes from, what is allowed, what is said when it is wrong."""
