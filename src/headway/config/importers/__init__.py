"""Readers of other tools' hardware descriptions: each turns a file into one of Headway's own form."""
