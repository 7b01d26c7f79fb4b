"""Programs that train on several ranks, against the result of one process; test_parallel.py is the table of them."""
