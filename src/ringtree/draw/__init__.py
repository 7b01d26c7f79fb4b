"""Pictures as text and as figures. Pure: every function returns text or data, nothing here prints."""
