"""Everything that waits: a timing wheel and delayed operations. Knows no group and reads no clock."""
