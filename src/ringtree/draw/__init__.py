"""Pictures as text, for a terminal or as pages. Pure: every function returns text, nothing here prints."""
