"""The parts of `bench/run tasks`. They import ioweave: build.use_python_package() comes before."""
