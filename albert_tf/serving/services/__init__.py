"""What an exported model offers: signatures for ids and for plain text."""
