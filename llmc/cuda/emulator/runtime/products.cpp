// What a wgmma multiplies: matrices in shared memory as descriptors describe them, sums in the registers of 128 threads.
#include "accesses.h"
#include "arena.h"
#include "hopper.h"
#include "shadow.h"

static Problem of_group(Worker& w, int kind, const Warpgroup& group, const char* pc, int line, const char* detail) {
    Problem p = blank(w, kind, pc);
    p.line = line;
    snprintf(p.detail, sizeof p.detail, "%s", detail);
    return p;
}

[[noreturn]] static void refuse_group(Worker& w, const Problem& p) {
    report(w, p);
    w.launch->abort = AFTER_PROBLEM;
    leave(w);
}

// ------------------------------------------------------------------------------------------------ matrices

// What a descriptor says: a matrix in shared memory as pieces of 16 bytes.
struct Matrix {
    char* start;
    int64_t leading, stride;
    int mode, size;  // swizzle as in TensorMap; bytes of an element
    bool along_k;

    char* element(int row, int k) const {  // row: along m or n
        int per = 16 / size, wide = 1 << mode;
        int64_t offset;
        if (along_k)
            offset = row % 8 * 16 * wide + row / 8 * stride + k / per * (mode ? 16 : leading) + k % per * size;
        else if (mode)
            offset = row / per % wide * 16 + row / per / wide * leading + k % 8 * 16 * wide + k / 8 * stride + row % per * size;
        else
            offset = row / per * stride + k % 8 * 16 + k / 8 * leading + row % per * size;
        char* at = start + offset;
        return mode ? swizzled(at, mode) : at;
    }
};

static Matrix matrix_of(Worker& w, uint64_t descriptor, bool along_k, int size) {
    static const int modes[] = {0, 3, 2, 1};
    Matrix m;
    unsigned address = (descriptor & 0x3fff) << 4;
    m.leading = (descriptor >> 16 & 0x3fff) << 4, m.stride = (descriptor >> 32 & 0x3fff) << 4;
    m.mode = modes[descriptor >> 62], m.along_k = along_k, m.size = size;
    size_t fixed = (address - LLMC_STATIC_WINDOW) & 0x3ffff;  // 18 bits of it are known
    m.start = address < w.launch->shared ? w.dynamic_shared + address : llmc_static_shared() + fixed;
    return m;
}

static void check_matrix(Worker& w, const Matrix& m, int rows, int depth, const char* pc, uint32_t segment) {
    for (const Delivered& d : w.hopper->delivered) {
        if (m.start < d.from || m.start >= d.to || d.swizzle == m.mode) continue;
        Region* r = region_of(m.start);
        Problem p = describe(w, WRONG_TILE, r, m.start, 16, READS, pc);
        p.pc2 = offset_of(*w.launch, d.pc);
        int span[] = {0, 32, 64, 128};
        snprintf(p.detail, sizeof p.detail, "swizzle %d %d", span[m.mode], span[d.swizzle]);
        refuse_group(w, p);
    }
    int per = 16 / m.size;
    for (int row = 0; row < rows; row += m.along_k ? 1 : per)
        for (int k = 0; k < depth; k += m.along_k ? per : 1) {
            char* piece = m.element(row, k);
            if (Region* r = admit(w, piece, 16, false, pc))
                cells_of_piece(w, *w.current, *r, piece, 16, pc, [&](const Here& h, size_t i) { read_cell_later(h, i, segment); });
        }
}

static float half_value(uint16_t h) {
    uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ffu, bits;
    if (exponent == 31) bits = sign | 0x7f800000u | mantissa << 13;
    else if (exponent) bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float small = mantissa * 0x1p-24f;
        memcpy(&bits, &small, 4);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t half_bits(float value) {  // to the nearest, ties to even
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u) {  // becomes subnormal: a sum that rounds by itself
        float scaled;
        memcpy(&scaled, &magnitude, 4);
        scaled += 0.5f;
        memcpy(&magnitude, &scaled, 4);
        return sign | (magnitude - 0x3f000000u);
    }
    return sign | (magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
}

static int size_of(int type) { return type == LLMC_TF32 ? 4 : type >= LLMC_E4M3 ? 1 : 2; }  // bytes

static float value_of_bits(uint32_t bits, int type) {  // the low ones, as many as the type has
    if (type == LLMC_F16) return half_value(bits);
    if (type == LLMC_E5M2) return half_value(bits << 8);  // the upper byte of a half
    if (type == LLMC_E4M3)  // as a half it would have the exponent of a number 256 times smaller
        return (bits & 0x7f) == 0x7f ? __builtin_nanf("") : 256 * half_value((bits & 0x80) << 8 | (bits & 0x7f) << 7);
    bits = type == LLMC_BF16 ? bits << 16 : bits & ~0x1fffu;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// ------------------------------------------------------------------------------------------------ sums

// Row and column of what thread t of the warpgroup has in register i, of f32; of a pair of f16, of the first.
static int row_of(int t, int i, bool half) { return t / WARP * 16 + t % WARP / 4 + 8 * (half ? i & 1 : i / 2 & 1); }
static int column_of(int t, int i, bool half) { return half ? i / 2 * 8 + t % 4 * 2 : i / 4 * 8 + t % 4 * 2 + i % 2; }

template <class Action>
static void for_registers(Accumulator& sum, Action action) {
    for (int t = 0; t < GROUP; t++)
        for (int i = 0; i < sum.registers; i++) {
            float* value = &sum.values[row_of(t, i, sum.half) * sum.n + column_of(t, i, sum.half)];
            action(t, sum.places[t * sum.registers + i], value);
        }
}

static void take_from_registers(Accumulator& sum) {
    for_registers(sum, [&](int, void* place, float* value) {
        if (sum.half) {
            uint16_t pair[2];
            memcpy(pair, place, 4);
            value[0] = half_value(pair[0]), value[1] = half_value(pair[1]);
        } else {
            memcpy(value, place, 4);
        }
        memset(place, 0xff, 4);  // poison
    });
}

// Not into variables of a function that has returned meanwhile: what lies there now is another's.
static void put_into_registers(Worker& w, const Warpgroup& group, Accumulator& sum, int first) {
    for_registers(sum, [&](int t, void* place, float* value) {
        if (place >= w.threads[first + t].stack && place < group.frames[t]) return;
        if (sum.half) {
            uint16_t pair[2] = {half_bits(value[0]), half_bits(value[1])};
            memcpy(place, pair, 4);
        } else {
            memcpy(place, value, 4);
        }
    });
}

static bool holds(const Accumulator& sum, int t, const char* address, int size) {
    if (address + size <= sum.low[t] || address >= sum.high[t]) return false;
    for (int i = 0; i < sum.registers; i++) {
        const char* place = (const char*)sum.places[t * sum.registers + i];
        if (address < place + 4 && place < address + size) return true;
    }
    return false;
}

static std::shared_ptr<Accumulator> sum_of(Warpgroup& group) {
    const LlmcProduct& p = *group.slots[0];
    auto same = [&](const Accumulator& sum) {
        if (sum.n != p.n || sum.registers != p.count || sum.half != p.half) return false;
        for (int i = 0; i < p.count; i++)
            if (sum.places[i] != p.registers[i]) return false;
        for (int t = 1; t < GROUP; t++)
            if (sum.places[t * p.count] != group.slots[t]->registers[0]) return false;
        return true;
    };
    for (size_t i = 0; i < group.sums.size(); i++) {
        auto& sum = group.sums[i];
        if (same(*sum)) return sum;
        if (sum->under_way || !holds(*sum, 0, (char*)p.registers[0], 4)) continue;
        sum = group.sums.back();  // of a function that has returned: another sum lies there now
        group.sums.pop_back();
        i--;
    }
    auto sum = std::make_shared<Accumulator>();
    sum->n = p.n, sum->registers = p.count, sum->half = p.half;
    sum->places.resize(GROUP * p.count), sum->values.resize(64 * p.n);
    sum->low.resize(GROUP), sum->high.resize(GROUP), sum->touched.resize(GROUP);
    for (int t = 0; t < GROUP; t++) {
        char *low = (char*)group.slots[t]->registers[0], *high = low;
        for (int i = 0; i < p.count; i++) {
            char* place = (char*)(sum->places[t * p.count + i] = group.slots[t]->registers[i]);
            low = std::min(low, place), high = std::max(high, place + 4);
        }
        sum->low[t] = low, sum->high[t] = high;
    }
    group.sums.push_back(sum);
    return sum;
}

typedef float Lanes __attribute__((vector_size(32), aligned(4)));

// Products are added up in f32. (Of fp8, Hopper's tensor cores keep about 14 bits when they add: that is not imitated.)
static void multiply_now(Worker& w, const Product& p) {
    const LlmcProduct& asked = p.asked;
    int n = asked.n, size = size_of(asked.type), depth = 32 / size, per = 4 / size;
    auto& a = w.hopper->a;
    auto& b = w.hopper->b;
    auto element = [&](const Matrix& m, int row, int k, int type) {
        uint32_t bits = 0;
        memcpy(&bits, m.element(row, k), size);
        return value_of_bits(bits, type);
    };
    if (asked.a) {
        for (int t = 0; t < GROUP; t++)
            for (int i = 0; i < 4; i++)
                for (int e = 0; e < per; e++)
                    a[row_of(t, i, true)][per * (t % 4 + 4 * (i / 2)) + e] =
                        value_of_bits(p.a[4 * t + i] >> 8 * size * e, asked.type);
    } else {
        Matrix m = matrix_of(w, asked.from_a, !asked.along_m, size);
        for (int row = 0; row < 64; row++)
            for (int k = 0; k < depth; k++) a[row][k] = element(m, row, k, asked.type);
    }
    Matrix m = matrix_of(w, asked.from_b, !asked.along_n, size);
    for (int column = 0; column < n; column++)
        for (int k = 0; k < depth; k++) b[k][column] = element(m, column, k, asked.type_b);
    float sign = asked.minus_a != asked.minus_b ? -1 : 1;
    for (int row = 0; row < 64; row++)
        for (int column = 0; column < n; column += 8) {
            Lanes products = {};
            for (int k = 0; k < depth; k++) products += a[row][k] * *(const Lanes*)&b[k][column];
            Lanes& sum = *(Lanes*)&p.sum->values[row * n + column];
            sum = asked.adds ? sum + sign * products : sign * products;
        }
}
