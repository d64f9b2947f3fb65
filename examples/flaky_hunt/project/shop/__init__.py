"""A small mug shop: catalog, prices, stock, orders, shipping and invoices."""
