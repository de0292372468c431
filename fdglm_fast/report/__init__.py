"""From a folder of results to a page: studies, curves, tables, the paper's claims, and one HTML file."""
