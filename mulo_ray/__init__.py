"""mulo_ray: multi-scale local speculative decoding for image data sets, run by Ray.

Importing the package loads neither ray nor torch; `mulo_ray.job.run` does, when it is called.
"""

__version__ = "0.1.0"
