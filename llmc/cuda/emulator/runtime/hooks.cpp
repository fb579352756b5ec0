// What a checked kernel calls. The compiler's thread-sanitizer pass puts a call such as __tsan_read4 before every load
// and store, its undefined-behaviour pass calls __ubsan_handle_… when something has gone wrong; here they are ours.
#include "accesses.h"
#include "state.h"

#define HERE (const char*)__builtin_return_address(0)
#define ACCESS(name, size, write, vol) \
    extern "C" void __tsan_##name##size(void* p) { ordinary_access((char*)p, size, write, vol, HERE); }
#define READ_WRITE(name, size)                                  \
    extern "C" void __tsan_##name##size(void* p) {              \
        ordinary_access((char*)p, size, false, false, HERE);    \
        ordinary_access((char*)p, size, true, false, HERE);     \
    }
#define ACCESSES(size)                                  \
    ACCESS(read, size, false, false)                    \
    ACCESS(write, size, true, false)                    \
    READ_WRITE(read_write, size)                        \
    ACCESS(unaligned_read, size, false, false)          \
    ACCESS(unaligned_write, size, true, false)          \
    READ_WRITE(unaligned_read_write, size)              \
    ACCESS(volatile_read, size, false, true)            \
    ACCESS(volatile_write, size, true, true)            \
    ACCESS(unaligned_volatile_read, size, false, true)  \
    ACCESS(unaligned_volatile_write, size, true, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void** p, void*) { ordinary_access((char*)p, sizeof *p, true, false, HERE); }
extern "C" void __tsan_vptr_read(void**) {}

// ------------------------------------------------------------------------------------------------ many bytes at once

// A structure copied as a whole: in words, so that each has its own place.
static void access_range(void* start, size_t size, bool write, const char* pc) {
    char* p = (char*)start;
    for (size_t done = 0; done < size;) {
        int step = 1;
        while (step < 8 && done + 2 * step <= size && !((uintptr_t)(p + done) & (2 * step - 1))) step *= 2;
        ordinary_access(p + done, step, write, false, pc, done > 0);
        done += step;
    }
}
extern "C" void __tsan_read_range(void* p, size_t size) { access_range(p, size, false, HERE); }
extern "C" void __tsan_write_range(void* p, size_t size) { access_range(p, size, true, HERE); }
extern "C" void llmc_read(const void* p, unsigned size) { access_range((void*)p, size, false, HERE); }
extern "C" void llmc_write(void* p, unsigned size) { access_range(p, size, true, HERE); }
extern "C" void llmc_access(const void* p, unsigned size, bool write, bool vol) {
    ordinary_access((char*)p, size, write, vol, HERE);
}
extern "C" void llmc_atomic(const volatile void* p, unsigned size) { atomic_access((char*)p, size, UPDATE, HERE); }
extern "C" void llmc_atomic_store(const volatile void* p, unsigned size) { atomic_access((char*)p, size, STORE, HERE); }
extern "C" void llmc_atomic_compare(const volatile void* p, unsigned size) {
    atomic_access((char*)p, size, COMPARE, HERE);
}

// clang leaves copies of structures to memcpy and does not report them; it is linked with --wrap=memcpy. From version
// 15 on (zig) it calls these instead.
static void access_copy(void* to, const void* from, size_t size, const char* pc) {
    access_range((void*)from, size, false, pc);
    access_range(to, size, true, pc);
}
extern "C" void* __wrap_memcpy(void* to, const void* from, size_t size) {
    access_copy(to, from, size, HERE);
    return memcpy(to, from, size);
}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t size) {
    access_copy(to, from, size, HERE);
    return memcpy(to, from, size);
}
extern "C" void* __tsan_memmove(void* to, const void* from, size_t size) {
    access_copy(to, from, size, HERE);
    return memmove(to, from, size);
}
extern "C" void* __tsan_memset(void* to, int byte, size_t size) {
    access_range(to, size, true, HERE);
    return memset(to, byte, size);
}

// ------------------------------------------------------------------------------------------------ undefined behaviour

struct Location {
    const char* file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, info;
    char name[1];
};
struct BoundsCheck {
    Location at;
    const TypeName *array, *index;
};
struct Arithmetic {
    Location at;
    const TypeName* type;
};

// A function that is to return a value has come to its closing brace.
extern "C" void __ubsan_handle_missing_return(Location* at) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, MISSING_RETURN, HERE);
    p.line = at->line;
    report(*w, p);
    end_thread(*w);
}

static int64_t value_of(const TypeName& type, uintptr_t value) {
    int bits = 1 << (type.info >> 1);
    if (bits > 64) return *(int64_t*)value;
    int unused = 64 - bits;
    return type.info & 1 ? int64_t(uint64_t(value) << unused) >> unused : int64_t(value);
}

extern "C" void __ubsan_handle_out_of_bounds(BoundsCheck* d, uintptr_t index) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, BOUNDS, HERE);
    p.line = d->at.line;
    snprintf(p.detail, sizeof p.detail, "%lld %s", (long long)value_of(*d->index, index), d->array->name);
    report(*w, p);
    end_thread(*w);
}

static void report_overflow(Arithmetic* d, const char* operation, const char* pc) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, INTEGER_OVERFLOW, pc);
    p.line = d->at.line;
    snprintf(p.detail, sizeof p.detail, "%s of %s", operation, d->type->name);
    report(*w, p);
}
#define OVERFLOW(name, operation)                                                            \
    extern "C" void __ubsan_handle_##name##_overflow(Arithmetic* d, uintptr_t, uintptr_t) {  \
        report_overflow(d, operation, HERE);                                                 \
    }
OVERFLOW(add, "sum")
OVERFLOW(sub, "difference")
OVERFLOW(mul, "product")
extern "C" void __ubsan_handle_negate_overflow(Arithmetic* d, uintptr_t) { report_overflow(d, "negative", HERE); }

// By zero, or the smallest number by -1: what a processor does next would end the process.
extern "C" void __ubsan_handle_divrem_overflow(Arithmetic* d, uintptr_t, uintptr_t divisor) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    if (value_of(*d->type, divisor)) {
        report_overflow(d, "quotient", HERE);
    } else {
        Problem p = blank(*w, DIVISION_BY_ZERO, HERE);
        p.line = d->at.line;
        report(*w, p);
    }
    end_thread(*w);
}

// By less than 0, or by all the bits or more: the processor wraps, a GPU does not.
struct Shift {
    Location at;
    const TypeName *left, *right;
};
extern "C" void __ubsan_handle_shift_out_of_bounds(Shift* d, uintptr_t, uintptr_t by) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, SHIFT, HERE);
    p.line = d->at.line;
    snprintf(p.detail, sizeof p.detail, "%lld %d %s", (long long)value_of(*d->right, by), 1 << (d->left->info >> 1),
             d->left->name);
    report(*w, p);
}

// A float that becomes an integer without a cast and does not fit; llmc_to of llmc_casts.h has those with one.
static void report_conversion(int kind, int line, double x, const char* type, const char* pc) {
    Worker* w = llmc_worker;
    if (!w || !w->current) return;
    Problem p = blank(*w, kind, pc);
    p.line = line;
    snprintf(p.detail, sizeof p.detail, "%.9g %s", x, type);
    report(*w, p);
}
struct Conversion {
    Location at;
    const TypeName *from, *to;
};
extern "C" void __ubsan_handle_float_cast_overflow(Conversion* d, uintptr_t value) {
    float single;
    double x;
    if (d->from->info == 32) memcpy(&single, &value, sizeof single), x = single;
    else memcpy(&x, d->from->info > 64 ? (void*)value : &value, sizeof x);
    report_conversion(CONVERSION, d->at.line, x, d->to->name, HERE);
}
extern "C" void llmc_saturated(int line, double x, const char* type) { report_conversion(SATURATED, line, x, type, HERE); }
