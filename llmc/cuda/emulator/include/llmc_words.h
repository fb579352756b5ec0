// CUDA's qualifiers, the macros that nvcc and NVRTC predefine, and the few functions with which a kernel speaks.
#pragma once

// For functions of ours that post their own variables to other lanes or touch memory with __atomic builtins: their
// accesses must not be reported as the kernel's. They are not inlined in checked builds, since that would undo it.
#ifdef LLMC_CHECKED
#define LLMC_QUIET static __attribute__((noinline, unused, no_sanitize("thread"), no_sanitize("undefined")))
static constexpr bool llmc_checked = true;
#else
#define LLMC_QUIET static inline __attribute__((unused))
static constexpr bool llmc_checked = false;
#endif

#define LLMC_METHOD inline __attribute__((always_inline))

#define __device__  // get_global finds a variable through a function that source.py adds
#define __constant__
#define __managed__
#define __host__
// refusals.py knows kernels by these attributes.
#ifdef LLMC_CHECKED  // GCC does not report the store of a returned structure: with everything inlined, none is returned
#define __global__ __attribute__((flatten))
#else
#define __global__ __attribute__((unused))
#endif
// A block runs on one thread of the host; in a function, thread_local implies static. No constructor is run: unless GCC
// is told so, it would ask at run time whether one was (for __half, say).
#ifdef __clang__
#define __shared__ thread_local
#else
#define __shared__ __constinit thread_local
#endif
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
// __shared__ alignas(16) float x[4]: to nvcc both words are attributes, so both must be allowed anywhere.
template <class T> constexpr unsigned long llmc_alignment() { return alignof(T); }
template <unsigned long n> constexpr unsigned long llmc_alignment() { return n; }
#define alignas(...) __align__((llmc_alignment<__VA_ARGS__>()))
#define __forceinline__ __attribute__((always_inline))  // without inline, since a kernel may say inline as well
#define __noinline__ __attribute__((noinline))
#define __builtin_align__(n) __align__(n)
template <unsigned x = 1, unsigned y = 1, unsigned z = 1> constexpr unsigned long llmc_one_block() {
    static_assert(x * y * z == 1, "the emulator runs blocks one after the other, so a cluster has one block here");
    return 16;
}
#define __cluster_dims__(...) __align__((llmc_one_block<__VA_ARGS__>()))  // only the check counts

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 4
#define CUDART_VERSION 12040
#define CUDA_VERSION 12040
#ifdef LLMC_HOPPER  // the option -arch=sm_90a
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#else
#define __CUDA_ARCH__ 800
#endif
#define LLMC_EMULATOR 1

// -------------------------------------------------------------------------------------------- what a kernel says
#define printf llmc_printf

#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : llmc_stop(LLMC_ASSERT, __LINE__, #condition))
#endif

[[noreturn]] LLMC_INLINE void __trap(LLMC_HERE) { llmc_stop(LLMC_TRAP, line, "__trap()"); }
// Called at the end of a function that has overwritten what lies behind its local arrays; C's own would end the process.
extern "C" [[noreturn]] void __stack_chk_fail() { llmc_stop(LLMC_TRAP, 0, "local array"); }
LLMC_INLINE void __brkpt() {}
LLMC_INLINE void __nanosleep(unsigned) { llmc_yield(); }

// The host's time stamp stands in for a multiprocessor's clock: it grows, but differences mean little.
LLMC_INLINE long long clock64() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    long long ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}
LLMC_INLINE long clock() { return clock64(); }
LLMC_INLINE unsigned long long globaltimer() { return clock64(); }

#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif
LLMC_INLINE void __assume(bool) {}
