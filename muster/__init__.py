"""What applications import: group membership, fetching, consumers and producers."""
