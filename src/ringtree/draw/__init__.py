"""Pictures as text. Pure: every function returns strings, nothing here prints."""
