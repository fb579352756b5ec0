// atomicAdd and its relatives, also with _block and _system. In checked builds each first reports where it writes.
#pragma once

#ifdef LLMC_CHECKED
#define LLMC_ATOMIC LLMC_QUIET
#else
#define LLMC_ATOMIC LLMC_INLINE
#endif

typedef unsigned __attribute__((may_alias)) LlmcWord;

template <class T>
LLMC_ATOMIC T llmc_compare_and_swap(T* address, T expected, T wanted) {
    if (!__atomic_compare_exchange_n(address, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        llmc_yield();  // another thread may hold the lock and needs a turn to release it
    return expected;
}
template <class T>
LLMC_ATOMIC T llmc_exchange(T* address, T wanted) {
    T old = __atomic_exchange_n(address, wanted, __ATOMIC_SEQ_CST);
    if (old == wanted) llmc_yield();  // so it looks when atomicExch tries to take a lock that is not free
    return old;
}
template <class T>
LLMC_ATOMIC T llmc_fetch_add(T* address, T value) {
    T old = __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
    if (value == 0) llmc_yield();  // a read in a loop, presumably
    return old;
}
template <class T>
LLMC_ATOMIC T llmc_fetch_and(T* address, T value) { return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST); }
template <class T>
LLMC_ATOMIC T llmc_fetch_or(T* address, T value) { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); }
template <class T>
LLMC_ATOMIC T llmc_fetch_xor(T* address, T value) { return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST); }

// Any other operation: read the bits, compute, swap them in unless another was faster. Bits: an integer of T's size.
template <class Bits, class T, class Op>
LLMC_ATOMIC T llmc_update(T* address, Op op) {
    typedef Bits __attribute__((may_alias)) Word;
    Bits old = __atomic_load_n((Word*)address, __ATOMIC_SEQ_CST), wanted;
    do wanted = llmc_bits<Bits>(op(llmc_bits<T>(old)));
    while (!__atomic_compare_exchange_n((Word*)address, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return llmc_bits<T>(old);
}

// LLMC_ATOMIC_1(int, atomicAdd, ...) defines atomicAdd, atomicAdd_block and atomicAdd_system.
#define LLMC_ATOMIC_1(T, name, expression) LLMC_ATOMIC_SCOPES(llmc_atomic, T, name, expression)
#define LLMC_ATOMIC_SCOPES(tell, T, name, expression)     \
    LLMC_ATOMIC_SCOPE(tell, T, name, expression)          \
    LLMC_ATOMIC_SCOPE(tell, T, name##_block, expression)  \
    LLMC_ATOMIC_SCOPE(tell, T, name##_system, expression)
#define LLMC_ATOMIC_SCOPE(tell, T, name, expression)      \
    LLMC_INLINE T name(T* address, T value) {             \
        tell(address, sizeof(T));                         \
        return expression;                                \
    }
#define LLMC_ATOMIC_UPDATE(T, Bits, name, expression) \
    LLMC_ATOMIC_1(T, name, (llmc_update<Bits>(address, [value](T old) -> T { return expression; })))
#define LLMC_ATOMIC_CAS(T, name)                                  \
    LLMC_INLINE T name(T* address, T expected, T wanted) {        \
        llmc_atomic_compare(address, sizeof(T));                  \
        return llmc_compare_and_swap(address, expected, wanted);  \
    }

#define LLMC_ATOMIC_INTEGER(T)                                        \
    LLMC_ATOMIC_1(T, atomicAdd, llmc_fetch_add(address, value))       \
    LLMC_ATOMIC_SCOPES(llmc_atomic_store, T, atomicExch, llmc_exchange(address, value)) \
    LLMC_ATOMIC_SCOPES(llmc_atomic_compare, T, atomicAnd, llmc_fetch_and(address, value)) \
    LLMC_ATOMIC_SCOPES(llmc_atomic_compare, T, atomicOr, llmc_fetch_or(address, value)) \
    LLMC_ATOMIC_1(T, atomicXor, llmc_fetch_xor(address, value))       \
    LLMC_ATOMIC_BOUNDS(T)                                             \
    LLMC_ATOMIC_CAS(T, atomicCAS)                                     \
    LLMC_ATOMIC_CAS(T, atomicCAS_block)                               \
    LLMC_ATOMIC_CAS(T, atomicCAS_system)
#define LLMC_ATOMIC_BOUNDS(T)                                         \
    LLMC_ATOMIC_BOUND(T, atomicMin, value < old ? value : old)        \
    LLMC_ATOMIC_BOUND(T, atomicMax, value > old ? value : old)
#define LLMC_ATOMIC_BOUND(T, name, expression)                        \
    LLMC_ATOMIC_SCOPES(llmc_atomic_compare, T, name,                  \
                       (llmc_update<T>(address, [value](T old) -> T { return expression; })))
LLMC_ATOMIC_INTEGER(int)
LLMC_ATOMIC_INTEGER(unsigned)
LLMC_ATOMIC_INTEGER(unsigned long long)
LLMC_ATOMIC_BOUNDS(long long)
LLMC_ATOMIC_CAS(unsigned short, atomicCAS)
LLMC_ATOMIC_SCOPES(llmc_atomic_store, float, atomicExch,
                   __uint_as_float(llmc_exchange<unsigned>((LlmcWord*)address, __float_as_uint(value))))
LLMC_ATOMIC_1(int, atomicSub, llmc_fetch_add(address, (int)(0u - (unsigned)value)))
LLMC_ATOMIC_1(unsigned, atomicSub, llmc_fetch_add(address, 0u - value))
LLMC_ATOMIC_UPDATE(unsigned, unsigned, atomicInc, old >= value ? 0 : old + 1)
LLMC_ATOMIC_UPDATE(unsigned, unsigned, atomicDec, old == 0 || old > value ? value : old - 1)

LLMC_ATOMIC_UPDATE(float, unsigned, atomicAdd, old + value)
LLMC_ATOMIC_UPDATE(double, unsigned long long, atomicAdd, old + value)
