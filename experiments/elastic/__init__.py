"""The worlds of Sia and Pollux and of Rubick: their speeds, their progress, their recorded runs."""
