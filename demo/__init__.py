"""The main job on real data: every flight that left New York in 2013, through one group of unlike members."""
