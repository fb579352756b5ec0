// What a kernel sees of the emulator: who it is (threadIdx and friends), how it waits for others, how it is called.
// The rest of CUDA's vocabulary is built on these few functions, which ../runtime defines.
#pragma once

#define LLMC_INLINE static inline __attribute__((always_inline))
#define LLMC_EXPORT extern "C" __attribute__((visibility("default")))
#define LLMC_HERE int line = __builtin_LINE()  // a default argument that carries the caller's line

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// One operating-system thread runs the threads of a block in turns, and sets these at each turn.
#ifndef __APPLE__
#define LLMC_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#else
#define LLMC_THREAD_LOCAL __thread
#endif
#define LLMC_TEXT(x) #x
#define LLMC_SYMBOL_OF(prefix, name) LLMC_TEXT(prefix) #name
#define LLMC_SYMBOL(name) LLMC_SYMBOL_OF(__USER_LABEL_PREFIX__, name)
#ifndef LLMC_RUNTIME
extern "C" {
extern LLMC_THREAD_LOCAL const uint3 threadIdx, blockIdx;
extern LLMC_THREAD_LOCAL const uint3 llmc_block_dim, llmc_grid_dim;
// no macros: a local variable may have such a name
extern LLMC_THREAD_LOCAL const dim3 blockDim __asm__(LLMC_SYMBOL(llmc_block_dim)), gridDim __asm__(LLMC_SYMBOL(llmc_grid_dim));
}
static const int warpSize = 32;
#endif

enum { LLMC_SHFL, LLMC_VOTE, LLMC_SYNCWARP, LLMC_REDUCE, LLMC_MMA, LLMC_MATCH };  // what a warp does together
constexpr unsigned LLMC_STATIC_WINDOW = 192 << 10;  // the last 18 bits of the first address of a static shared array
enum { LLMC_COUNT, LLMC_AND, LLMC_OR };                                            // __syncthreads_count, _and, _or
enum { LLMC_ASSERT, LLMC_TRAP, LLMC_UNSUPPORTED };                                 // why a kernel stops

extern "C" {
// Each lane of `mask` posts `mine`; the last to arrive runs last(slots, mask), where slots[lane] is null for a lane
// that has exited. Returns the lanes that took part.
// `from`: the instruction of the kernel that called one of our functions, which then calls this one.
unsigned llmc_collective(unsigned mask, int kind, int line, void* mine, void (*last)(void** slots, unsigned mask),
                         const void* from = nullptr);
unsigned llmc_active_lanes(int line);                             // __activemask: lanes that reach this point together
void llmc_block_barrier(int line);                                // __syncthreads
int llmc_block_barrier_reduce(int line, int value, int operation);
// The same for `threads` threads of the block from number `first` on, in several warps; slots[rank] is what each posted.
void llmc_tile_collective(int first, int threads, void* mine, void (*last)(void** slots, int threads));
// Those of the block's threads that name this barrier, `threads` of them; without `wait` a thread only arrives.
void llmc_named_barrier(int line, int barrier, int threads, bool wait);
void llmc_inactive_lane(int line, int lane, const void* from);    // a shuffle reads a lane that does not take part
void llmc_yield();                                                // let the others run: after a failed CAS, in a spin
unsigned llmc_lane();
unsigned llmc_tid();  // index of the thread in its block
unsigned llmc_dynamic_bytes();
void* llmc_dynamic_shared();
char* llmc_static_shared();
[[noreturn]] void llmc_stop(int why, int line, const char* detail);
void* llmc_malloc(unsigned long bytes);
void llmc_free(void* p, int line);
// Asynchronous copies: ask for one of 1, 2, 4, 8 or 16 bytes (`room`; what is more than `bytes` becomes zeros), end a
// group, wait for all but the last `prior` groups. Or bind those of this thread to a barrier, whose last arrival
// finishes them.
void llmc_copy_later(void* to, const void* from, unsigned bytes, unsigned room);
void llmc_commit_copies();
void llmc_wait_copies(unsigned prior);
void llmc_bind_copies(const void* barrier);
void llmc_finish_copies(const void* barrier);
int llmc_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The compiler reports ordinary loads and stores by itself; these are for what it does not see.
#if defined(LLMC_CHECKED) || defined(LLMC_RUNTIME)
void llmc_atomic(const volatile void* address, unsigned size);
void llmc_atomic_store(const volatile void* address, unsigned size);  // one that may be the first to write there
void llmc_atomic_compare(const volatile void* address, unsigned size);  // CAS, min, max, and, or: it may change nothing
void llmc_read(const void* address, unsigned size);
void llmc_write(void* address, unsigned size);
void llmc_access(const void* address, unsigned size, bool write, bool is_volatile);  // all of it at once
#else
LLMC_INLINE void llmc_atomic(const volatile void*, unsigned) {}
LLMC_INLINE void llmc_atomic_store(const volatile void*, unsigned) {}
LLMC_INLINE void llmc_atomic_compare(const volatile void*, unsigned) {}
LLMC_INLINE void llmc_read(const void*, unsigned) {}
LLMC_INLINE void llmc_write(void*, unsigned) {}
LLMC_INLINE void llmc_access(const void*, unsigned, bool, bool) {}
#endif
}

// ---------------------------------------------------------------------------------------- how a kernel is called
// LLMC_ENTRY(0, kernel<float, 4>) exports llmc_entry_0(void** arguments) and llmc_signature_0, a text such as
// "pf4,Pf4x4,vi4": pointer to float, pointer to const float4, int by value. This way nobody has to parse C++.

// Letter and bytes of one element, and how many of them a type holds. A header that defines a type specialises this.
template <class T>
struct LlmcElement {
    static constexpr char letter = __is_enum(T) ? 'i' : 's';
    static constexpr int bytes = sizeof(T), count = 1;
};
#define LLMC_ELEMENT(type, code, size, n)            \
    template <>                                      \
    struct LlmcElement<type> {                       \
        static constexpr char letter = code;         \
        static constexpr int bytes = size, count = n; \
    };
LLMC_ELEMENT(void, '?', 0, 1)
LLMC_ELEMENT(bool, '?', 1, 1)
LLMC_ELEMENT(char, 'i', 1, 1)
LLMC_ELEMENT(signed char, 'i', 1, 1)
LLMC_ELEMENT(unsigned char, 'u', 1, 1)
LLMC_ELEMENT(short, 'i', 2, 1)
LLMC_ELEMENT(unsigned short, 'u', 2, 1)
LLMC_ELEMENT(int, 'i', 4, 1)
LLMC_ELEMENT(unsigned, 'u', 4, 1)
LLMC_ELEMENT(long, 'i', sizeof(long), 1)
LLMC_ELEMENT(unsigned long, 'u', sizeof(long), 1)
LLMC_ELEMENT(long long, 'i', 8, 1)
LLMC_ELEMENT(unsigned long long, 'u', 8, 1)
LLMC_ELEMENT(float, 'f', 4, 1)
LLMC_ELEMENT(double, 'f', 8, 1)

template <class T> struct LlmcPlain { using type = T; static constexpr bool constant = false; };
template <class T> struct LlmcPlain<const T> { using type = typename LlmcPlain<T>::type; static constexpr bool constant = true; };
template <class T> struct LlmcPlain<volatile T> { using type = T; static constexpr bool constant = false; };
template <class T> struct LlmcPlain<const volatile T> { using type = T; static constexpr bool constant = true; };

static inline void llmc_append(char*& out, char prefix, char letter, int bytes, int count) {
    *out++ = prefix;
    *out++ = letter;
    for (int digits[2] = {bytes, count}, k = 0; k < (count > 1 ? 2 : 1); k++) {
        if (k) *out++ = 'x';
        for (int unit = 10000, shown = 0; unit; unit /= 10)
            if (shown || digits[k] >= unit || unit == 1) *out++ = '0' + digits[k] / unit % 10, shown = 1;
    }
}
template <class T>
struct LlmcParameter {
    using Element = LlmcElement<typename LlmcPlain<T>::type>;
    static void describe(char*& out) { llmc_append(out, 'v', Element::letter, Element::bytes, Element::count); }
};
template <class T>
struct LlmcParameter<T*> {
    using Element = LlmcElement<typename LlmcPlain<T>::type>;
    static void describe(char*& out) {
        llmc_append(out, LlmcPlain<T>::constant ? 'P' : 'p', Element::letter, Element::bytes, Element::count);
    }
};
template <class T> struct LlmcParameter<T* const> : LlmcParameter<T*> {};

template <class... A>
const char* llmc_describe(void (*)(A...), char* text) {
    char* out = text;
    ((LlmcParameter<A>::describe(out), *out++ = ','), ...);
    *(out > text ? out - 1 : out) = 0;
    return text;
}

template <int... I> struct LlmcIndices {};
template <int N, int... I> struct LlmcCount : LlmcCount<N - 1, N - 1, I...> {};
template <int... I> struct LlmcCount<0, I...> { using type = LlmcIndices<I...>; };
template <class T> struct LlmcValue { using type = T; };
template <class T> struct LlmcValue<const T> { using type = T; };

template <class... A, int... I>
LLMC_INLINE void llmc_apply(void (*kernel)(A...), void** arguments, LlmcIndices<I...>) {
#ifdef LLMC_CHECKED
    asm volatile("" : "+r"(kernel));  // stays a call: inlined here, its accesses would not be reported
#endif
    kernel(*(typename LlmcValue<A>::type*)arguments[I]...);
}
template <class... A>
LLMC_INLINE void llmc_call(void (*kernel)(A...), void** arguments) {
    llmc_apply(kernel, arguments, typename LlmcCount<sizeof...(A)>::type());
}

#ifdef LLMC_CHECKED
#define LLMC_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("undefined")))
#else
#define LLMC_UNSEEN
#endif
#define LLMC_ENTRY(i, ...)                                                                                       \
    LLMC_EXPORT LLMC_UNSEEN void llmc_entry_##i(void** arguments) { llmc_call(__VA_ARGS__, arguments); }          \
    LLMC_EXPORT LLMC_UNSEEN const char* llmc_signature_##i() {                                                    \
        static char text[4096];                                                                                  \
        return llmc_describe(__VA_ARGS__, text);                                                                 \
    }

template <class... Others> constexpr int llmc_first(int first, Others...) { return first; }
#define LLMC_BOUND(i, ...) LLMC_EXPORT int llmc_bound_##i() { return llmc_first(__VA_ARGS__); }

// Static __shared__ variables are thread-local, so each worker has its own; the runtime finds them next to this one.
#ifndef LLMC_RUNTIME
static __thread char llmc_shared_anchor;
LLMC_EXPORT LLMC_UNSEEN void* llmc_shared_memory() { return &llmc_shared_anchor; }
#endif
