"""Readers of other tools' layer tables: each turns a file into a graph, facts only, no weights."""
