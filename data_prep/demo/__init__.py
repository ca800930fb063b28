"""Generated stories and CoLA for the demo."""
