"""Where Ray lives: role actors, groups, placement, and the stage. Knows no file format and no model family."""
