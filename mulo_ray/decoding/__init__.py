"""The method: draft, upsample, verify, expand, resample, commit. torch only; knows no Ray, no file, no family."""
