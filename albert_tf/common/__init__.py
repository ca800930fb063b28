"""What every layer uses: errors, files, options, JSON, processes, scores."""
