"""The strategies that divide training over ranks, by what they divide."""
