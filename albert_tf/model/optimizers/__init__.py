"""AdamW, LAMB and Muon, schedules and clipping."""
