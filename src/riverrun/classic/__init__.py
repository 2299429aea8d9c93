"""Models that count: n-grams and skip-grams. Counting needs numba, predicting only numpy."""
