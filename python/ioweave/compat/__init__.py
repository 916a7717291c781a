"""Programs written for other task systems, on Ioweave."""
