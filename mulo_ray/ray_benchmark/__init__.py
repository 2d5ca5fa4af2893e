"""What Ray and everything around the models costs: stub roles that only take time, then the embedded family."""
