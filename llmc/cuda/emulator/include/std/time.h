// Only for the host's part of a file: a kernel can use none of it.
