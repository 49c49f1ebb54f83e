"""From drift, errors and bits to attention agreement: features, regressors, honest splits."""
