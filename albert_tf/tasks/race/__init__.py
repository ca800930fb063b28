"""Questions about an article with options to choose from."""
