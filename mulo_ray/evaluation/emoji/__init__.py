"""The evaluation kit of the embedded family: captions with known concepts, a judge, and distances between sets."""
