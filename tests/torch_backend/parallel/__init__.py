"""Programs that train by several ranks, each against what one process gives; test_parallel.py is the table of them."""
