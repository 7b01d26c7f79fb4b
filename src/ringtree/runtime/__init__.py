"""Running schedules: process groups, the communicator, the engines that interpret programs, and starting ranks."""
