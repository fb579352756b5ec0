// Removes the macros with which llmc_16bit_type.h was included, so that it can be included again.
#undef LLMC_JOINED
#undef LLMC_NAMED
#undef LLMC_T
#undef LLMC_T2
#undef LLMC_RAW
#undef LLMC_NAME
#undef LLMC_LETTER
#undef LLMC_TO
#undef LLMC_FROM
#undef LLMC_ROUND
