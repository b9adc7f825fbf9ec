"""Cache layouts: shapes, orders and views of one raw allocation, and who owns its bytes."""
