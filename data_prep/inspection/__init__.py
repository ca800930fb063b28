"""What inspect_records shows of a record file."""
