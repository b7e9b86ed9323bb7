"""What any training program may use: checkpoints, the evaluator, custom loops, learning rates."""
