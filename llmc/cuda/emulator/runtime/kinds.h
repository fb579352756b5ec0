// Every kind of problem that can be found, the gravest first. ../findings/kinds.py is the same table with the words of
// a report; the runtime does not compile unless both have the same kinds in the same order.
#pragma once

// Whatever a thread that was ended early leaves undone looks like the mistake of another. So the kinds marked FIRST are
// reported only while no thread of the block has been lost; those marked ALWAYS are never a mere consequence.
#define LLMC_KINDS(KIND)              \
    KIND(CRASH, FIRST)                \
    KIND(BOUNDS, ALWAYS)              \
    KIND(OUT_OF_BOUNDS, ALWAYS)       \
    KIND(INVALID_POINTER, ALWAYS)     \
    KIND(MISALIGNED, ALWAYS)          \
    KIND(STACK_OVERFLOW, FIRST)       \
    KIND(DIVISION_BY_ZERO, ALWAYS)    \
    KIND(INTEGER_OVERFLOW, FIRST)     \
    KIND(SHIFT, FIRST)                \
    KIND(CONVERSION, FIRST)           \
    KIND(ASSERT, ALWAYS)              \
    KIND(MISSING_RETURN, ALWAYS)      \
    KIND(UNSUPPORTED, ALWAYS)         \
    KIND(BARRIER_DIVERGENCE, FIRST)   \
    KIND(DEADLOCK, FIRST)             \
    KIND(INACTIVE_LANE, FIRST)        \
    KIND(PART_OF_A_WARPGROUP, FIRST)  \
    KIND(MBARRIER, FIRST)             \
    KIND(WRONG_TILE, FIRST)           \
    KIND(COPY_RACE, FIRST)            \
    KIND(RACE, FIRST)                 \
    KIND(MISSING_SYNCWARP, FIRST)     \
    KIND(MISSING_FENCE, FIRST)        \
    KIND(UNFINISHED_PRODUCT, FIRST)   \
    KIND(NEVER_WAITED_FOR, FIRST)     \
    KIND(RUNAWAY, FIRST)              \
    KIND(UNINITIALISED, FIRST)        \
    KIND(NEVER_WRITTEN, FIRST)        /* found by ../calling/unwritten.py, after the launch */ \
    KIND(UNINITIALISED_LOCAL, FIRST)  /* the compiler's warning, as a note */ \
    KIND(EARLY_RETURN, FIRST)         \
    KIND(DIFFERENT_BARRIERS, FIRST)   \
    KIND(SATURATED, FIRST)

#define LLMC_NAME(name, when) name,
enum Kind { LLMC_KINDS(LLMC_NAME) NUMBER_OF_KINDS };
#undef LLMC_NAME

enum When { FIRST, ALWAYS };
#define LLMC_WHEN(name, when) when,
constexpr When REPORTED[] = {LLMC_KINDS(LLMC_WHEN)};
#undef LLMC_WHEN
