"""Small language models as exporters write them, and what runtimes make of our IR of them."""
