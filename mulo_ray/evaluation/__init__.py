"""What a finished run says about itself: reports, comparisons, contact sheets. Never needed to make an image."""
