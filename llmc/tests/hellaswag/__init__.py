"""HellaSwag: its files, its scores, its command."""
