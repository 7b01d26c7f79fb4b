"""What ranks did and when: recorded, gathered, made into one trace."""
