"""Where Ray lives: role actors, groups, placement and the stage that joins them. Knows no file format and no model family."""
