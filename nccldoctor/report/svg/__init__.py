"""Pictures: facts in, inline SVG out; colours and shapes come from classes of the page's style sheet."""
