"""Serve SavedModels over HTTP."""
