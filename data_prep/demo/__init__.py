"""Generated stories and tasks for the demo and the tests."""
