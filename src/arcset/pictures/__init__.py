"""Pictures of a run: stills, films, reports."""
