"""What lesson 12 needs: references of its kernels, and the results of well-known mistakes."""
