"""Methods side by side: the rows of a comparison, its table and its page. Knows numbers; measures nothing."""
