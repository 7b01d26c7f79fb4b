"""Who are we: the environment a rank was started in, and how ranks on one machine meet."""
