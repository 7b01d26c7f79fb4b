"""The results of calls for torch: works, their futures, and the callbacks of these."""
