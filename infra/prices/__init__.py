"""What a stack costs at AWS's list prices: quantities times the prices of one region."""
