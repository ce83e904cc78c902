"""Routes of the HTTP interface, and the OpenAPI document that is made from the same rows."""
