"""What AWS charges, at the list prices of one region, and what a backlog costs."""
