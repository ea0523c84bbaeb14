"""What-if studies: grids, break points, Monte Carlo and replays of a fixed plan, all on top of solve."""
