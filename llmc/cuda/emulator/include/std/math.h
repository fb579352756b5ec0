// Everything is in llmc_cuda.h, which every kernel sees first.
