"""The project's report: ``python -m reports`` runs the studies, judges the claims and typesets the PDF."""
