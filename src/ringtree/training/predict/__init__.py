"""The predicted time of a step's communication on a cluster. Needs no torch."""
