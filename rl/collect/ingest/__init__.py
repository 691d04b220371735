"""Importing files and folders."""
