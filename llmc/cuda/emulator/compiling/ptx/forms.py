"""The table of PTX instructions that the emulator knows: how each is written, its operands, the function it calls.

How it is written: `[.x]` may be missing, `<T:f16|f32>` is one of several and called T, `<=T>` is the same again.
Operands, in order: `=f32x4` is a result, a vector of four; `f32` a source; `n` a constant; `[shared]` an address, and
`[T*]` one that becomes a pointer to T; `~u8` may be in a wider register. `x32` is 32 bits not declared as a float.
`[map]` is a tensor map with D coordinates, `sum` the registers that a wgmma adds up in.
The functions are in ../../include/ptx/ (namespace llmc_ptx) unless they begin with `::`.
"""

INTEGER = "u16|s16|u32|s32|u64|s64"
HALVES = "f16|f16x2|bf16|bf16x2"
FP8 = "e4m3|e5m2"
BITS = "b16|b32|b64"
ANY = f"{BITS}|{INTEGER}|f32|f64"
MEMORY = f"b8|u8|s8|{ANY}"

COPY, MMA = "cp.async.<c:ca|cg>.shared.global", "mma.sync.aligned.m16n8"
WMMA, SQUARE = "wmma.mma.sync.aligned.<a:row|col>.<b:row|col>.m16n16k16", ".m16n16k16[.<S:global|shared>]"
COPIES = (
    (COPY, "[shared] [global] n", "cp_async<{c}>"),
    (COPY, "[shared] [global] n u32", "cp_async_part<{c}>"),
    (COPY, "[shared] [global] n pred", "cp_async_unless<{c}>"),
    (COPY, "[shared] [global] n hint", "cp_async<{c}>"),
    (COPY, "[shared] [global] n u32 hint", "cp_async_part<{c}>"),
    ("cp.async.commit_group", "", "cp_async_commit_group"),
    ("cp.async.wait_group", "n", "cp_async_wait_group"),
    ("cp.async.wait_all", "", "cp_async_wait_all"),
)
MATRICES = (
    (
        "ldmatrix.sync.aligned[.m8n8].x<n:1|2|4>[.<t:trans>][.m8n8].shared.b16",
        "=x32x{n} [shared]",
        "ldmatrix<{n}, {t}>",
    ),
    ("stmatrix.sync.aligned[.m8n8].x<n:1|2|4>[.<t:trans>][.m8n8].shared.b16", "[shared] x32x{n}", "stmatrix<{n}, {t}>"),
    ("movmatrix.sync.aligned.m8n8.trans.b16", "=x32 x32", "movmatrix"),
    (MMA + "k4.row.col.f32.tf32.tf32.f32", "=f32x4 x32x2 x32x1 f32x4", "mma<4, tf32, tf32, f32>"),
    (MMA + "k8.row.col.f32.tf32.tf32.f32", "=f32x4 x32x4 x32x2 f32x4", "mma<8, tf32, tf32, f32>"),
    (MMA + "k8.row.col.f32.<T:f16|bf16>.<=T>.f32", "=f32x4 x32x2 x32x1 f32x4", "mma<8, {T}, {T}, f32>"),
    (MMA + "k16.row.col.f32.<T:f16|bf16>.<=T>.f32", "=f32x4 x32x4 x32x2 f32x4", "mma<16, {T}, {T}, f32>"),
    (MMA + "k8.row.col.f16.f16.f16.f16", "=f16x2x2 x32x2 x32x1 f16x2x2", "mma<8, f16, f16, f16x2>"),
    (MMA + "k16.row.col.f16.f16.f16.f16", "=f16x2x2 x32x4 x32x2 f16x2x2", "mma<16, f16, f16, f16x2>"),
    (MMA + "k16.row.col.s32.<A:s8|u8>.<B:s8|u8>.s32", "=s32x4 x32x2 x32x1 s32x4", "mma<16, {A}, {B}, s32>"),
    (MMA + "k32.row.col.s32.<A:s8|u8>.<B:s8|u8>.s32", "=s32x4 x32x4 x32x2 s32x4", "mma<32, {A}, {B}, s32>"),
    (MMA + f"k32.row.col.f32.<A:{FP8}>.<B:{FP8}>.f32", "=f32x4 x32x4 x32x2 f32x4", "mma<32, {A}, {B}, f32>"),
    # the registers of a square of f16 are eight, each pair of numbers with two lanes
    (f"wmma.load.<w:a|b>.sync.aligned.<o:row|col>{SQUARE}.bf16", "=x32x4 [S] u32", "wmma_load<{w}, {o}, 4>"),
    (f"wmma.load.<w:a|b>.sync.aligned.<o:row|col>{SQUARE}.f16", "=x32x8 [S] u32", "wmma_load<{w}, {o}, 8>"),
    (WMMA + ".f32.bf16.bf16.f32", "=f32x8 x32x4 x32x4 f32x8", "wmma_mma<bf16>"),
    (WMMA + ".f32.f32", "=f32x8 x32x8 x32x8 f32x8", "wmma_mma<f16>"),
    (f"wmma.store.d.sync.aligned.<o:row|col>{SQUARE}.f32", "[S] f32x8 u32", "wmma_store<{o}>"),
)
LOAD = f"ld[.<S:global|shared>][.<v:volatile>][.v<n:2|4>].<T:{MEMORY}>"
STORE = LOAD.replace("ld", "st", 1)
LOADS = (
    (LOAD, "=~Tx{n} [S]", "ld{v}<{T}, {n}>"),
    (LOAD, "=~Tx{n} [S] hint", "ld{v}<{T}, {n}>"),
    (STORE, "[S] ~Tx{n}", "st{v}<{T}, {n}>"),
    (STORE, "[S] ~Tx{n} hint", "st{v}<{T}, {n}>"),
    ("prefetch[.global].<L1|L2|L2::evict_last|L2::evict_normal>", "[global]", "prefetch"),
    ("prefetchu.L1", "[global]", "prefetch"),
    ("createpolicy.fractional.L2::<evict_first|evict_last|evict_normal|evict_unchanged>.b64", "=b64", "createpolicy"),
    (
        "createpolicy.fractional.L2::<evict_first|evict_last|evict_normal|evict_unchanged>.b64",
        "=b64 f32",
        "createpolicy",
    ),
    ("cvta.to.shared.u64", "=b64 b64", "cvta_to_shared"),
    ("cvta.shared.u64", "=b64 b64", "cvta_shared"),
    ("cvta[.to].<global|local|const>.u64", "=b64 b64", "mov<b64>"),
    ("membar.<cta|gl|sys>", "", "fence"),
    ("fence[.<sc|acq_rel>].<cta|gpu|sys>", "", "fence"),
)
ATOMICS = (  # atom; red is the same without a result
    ("add.<T:u32|s32|u64|f32|f64|f16|f16x2|bf16|bf16x2>", "=T [T*] T", "::atomicAdd"),
    ("add.s64", "=u64 [u64*] u64", "::atomicAdd"),
    ("<o:and|or|xor>.<T:b32|b64>", "=T [T*] T", "::atomic{O}"),
    ("<o:min|max>.<T:u32|s32|u64|s64>", "=T [T*] T", "::atomic{O}"),
    ("<o:inc|dec>.<T:u32>", "=T [T*] T", "::atomic{O}"),
    ("exch.<T:b32|b64>", "=T [T*] T", "::atomicExch"),
    ("cas.<T:b16|b32|b64>", "=T [T*] T T", "::atomicCAS"),
)
ARITHMETIC = (
    (f"mov.<T:{ANY}|pred>", "=T T", "mov<{T}>"),
    ("mov.<T:b32|b64>", "=T b16x2", "pack<{T}, b16, 2>"),
    ("mov.<T:b64>", "=T b32x2", "pack<{T}, b32, 2>"),
    ("mov.<T:b64>", "=T b16x4", "pack<{T}, b16, 4>"),
    ("mov.b32", "=b16x2 b32", "unpack<b16, 2>"),
    ("mov.b64", "=b32x2 b64", "unpack<b32, 2>"),
    ("mov.b64", "=b16x4 b64", "unpack<b16, 4>"),
    (f"<o:add|sub>[.rn].<T:{INTEGER}|f32|f64|{HALVES}>", "=T T T", "{o}<{T}>"),
    (f"mul[.rn].<T:f32|f64|{HALVES}>", "=T T T", "mul<{T}>"),
    (f"mul.<o:lo|hi>.<T:{INTEGER}>", "=T T T", "mul_{o}<{T}>"),
    ("mul.wide.<T:u16|s16|u32|s32>", "={W} T T", "mul_wide<{T}>"),
    (f"mad.<o:lo|hi>.<T:{INTEGER}>", "=T T T T", "mad_{o}<{T}>"),
    ("mad.wide.<T:u16|s16|u32|s32>", "={W} T T {W}", "mad_wide<{T}>"),
    (f"<fma|mad>.rn.<T:f32|f64|{HALVES}>", "=T T T T", "fma<{T}>"),
    (f"<o:div|rem>.<T:{INTEGER}>", "=T T T", "{o}<{T}>"),
    ("div.<approx|full|rn>.<T:f32|f64>", "=T T T", "div<{T}>"),
    (f"<o:abs|neg>.<T:s16|s32|s64|f32|f64|{HALVES}>", "=T T", "{o}<{T}>"),
    (f"<o:min|max>.<T:{INTEGER}|f32|f64|{HALVES}>", "=T T T", "{o}<{T}>"),
    (f"<o:and|or|xor>.<T:{BITS}|pred>", "=T T T", "bit_{o}<{T}>"),
    (f"not.<T:{BITS}|pred>", "=T T", "bit_not<{T}>"),
    (f"shl.<T:{BITS}>", "=T T u32", "shl<{T}>"),
    (f"shr.<T:{BITS}|{INTEGER}>", "=T T u32", "shr<{T}>"),
    ("shf.<d:l|r>.<m:wrap|clamp>.b32", "=b32 b32 b32 u32", "shf_{d}_{m}"),
    ("lop3.b32", "=b32 b32 b32 b32 n", "lop3"),
    ("prmt.b32", "=b32 b32 b32 b32", "prmt"),
    ("bfe.<T:u32|s32|u64|s64>", "=T T u32 u32", "bfe<{T}>"),
    ("bfi.<T:b32|b64>", "=T T T u32 u32", "bfi<{T}>"),
    ("popc.<T:b32|b64>", "=u32 T", "popc"),
    ("clz.<T:b32|b64>", "=u32 T", "clz<{T}>"),
    ("brev.<T:b32|b64>", "=T T", "brev<{T}>"),
    ("dp4a.<T:s32|u32>.<=T>", "=T T T T", "dp4a"),
    ("sad.u32", "=u32 u32 u32 u32", "sad"),
    (f"setp.<o:eq|ne|lt|le|gt|ge>.<T:{ANY}|f16|bf16>", "=pred T T", "{o}<{T}>"),
    ("setp.<o:equ|neu|ltu|leu|gtu|geu>.<T:f32|f64>", "=pred T T", "{o}<{T}>"),
    (f"selp.<T:{ANY}>", "=T T T pred", "selp<{T}>"),
    (f"ex2.approx.<T:f32|{HALVES}>", "=T T", "ex2<{T}>"),
    (f"tanh.approx.<T:f32|{HALVES}>", "=T T", "tanh<{T}>"),
    ("lg2.approx.f32", "=f32 f32", "lg2"),
    ("sin.approx.f32", "=f32 f32", "sine"),
    ("cos.approx.f32", "=f32 f32", "cosine"),
    ("rcp.<approx|rn>.<T:f32|f64>", "=T T", "rcp<{T}>"),
    ("sqrt.<approx|rn>.<T:f32|f64>", "=T T", "root<{T}>"),
    ("rsqrt.approx.<T:f32|f64>", "=T T", "rsqrt<{T}>"),
    ("copysign.<T:f32|f64>", "=T T T", "copysign_of<{T}>"),
)
# Hopper's. A cluster has one block here, so shared::cluster is shared.
BARRIERS = (
    ("mbarrier.init[.<S:shared>].b64", "[S] u32", "mbarrier_init"),
    ("mbarrier.inval[.<S:shared>].b64", "[S]", "mbarrier_inval"),
    ("mbarrier.<o:arrive|arrive_drop>[.<S:shared>].b64", "=b64 [S]", "mbarrier_{o}"),
    ("mbarrier.<o:arrive|arrive_drop>[.noComplete][.<S:shared>].b64", "=b64 [S] u32", "mbarrier_{o}"),
    ("mbarrier.arrive.expect_tx[.<S:shared>].b64", "=b64 [S] u32", "mbarrier_arrive_expect_tx"),
    ("mbarrier.<o:expect_tx|complete_tx>[.<S:shared>].b64", "[S] u32", "mbarrier_{o}"),
    ("mbarrier.<o:try_wait|test_wait>[.<S:shared>].b64", "=pred [S] b64", "mbarrier_{o}"),
    ("mbarrier.try_wait[.<S:shared>].b64", "=pred [S] b64 u32", "mbarrier_try_wait"),
    ("mbarrier.<o:try_wait|test_wait>.parity[.<S:shared>].b64", "=pred [S] u32", "mbarrier_{o}_parity"),
    ("mbarrier.try_wait.parity[.<S:shared>].b64", "=pred [S] u32 u32", "mbarrier_try_wait_parity"),
    ("cp.async.mbarrier.arrive[.<S:shared>].b64", "[S]", "cp_async_mbarrier_arrive"),
    ("cp.async.mbarrier.arrive.noinc[.<S:shared>].b64", "[S]", "cp_async_mbarrier_arrive_noinc"),
    ("fence.proxy.async[.<global|shared>]", "", "fence_proxy_async"),
    ("fence.mbarrier_init.release.cluster", "", "fence"),
    ("barrier.cluster.arrive[.<release|relaxed>][.aligned]", "", "barrier_cluster_arrive"),
    ("barrier.cluster.wait[.acquire][.aligned]", "", "barrier_cluster_wait"),
    ("mapa[.shared].<T:u32|u64>", "=T T u32", "mapa<{T}>"),
    ("elect.sync", "=b32 u32", "elect"),
    ("setmaxnreg.<inc|dec>.sync.aligned.u32", "n", "setmaxnreg"),
    ("griddepcontrol.<wait|launch_dependents>", "", "nothing_here"),
)
BULK, TENSOR = "cp.async.bulk", "cp.async.bulk.tensor.<D:1|2|3|4|5>d"
BYTES = ".mbarrier::complete_tx::bytes"
BULK_COPIES = (
    (f"{BULK}.shared.global{BYTES}", "[shared] [global] u32 [shared]", "bulk_load"),
    (f"{BULK}.shared.global{BYTES}", "[shared] [global] u32 [shared] hint", "bulk_load"),
    (f"{BULK}.shared.global{BYTES}.multicast::cluster", "[shared] [global] u32 [shared] u16", "bulk_load_to"),
    (f"{BULK}.global.shared.bulk_group", "[global] [shared] u32", "bulk_store"),
    (f"{BULK}.global.shared.bulk_group", "[global] [shared] u32 hint", "bulk_store"),
    (f"{TENSOR}.shared.global[.tile]{BYTES}", "[shared] [map] [shared]", "tensor_load<{D}>"),
    (f"{TENSOR}.shared.global[.tile]{BYTES}", "[shared] [map] [shared] hint", "tensor_load<{D}>"),
    (f"{TENSOR}.shared.global[.tile]{BYTES}.multicast::cluster", "[shared] [map] [shared] u16", "tensor_load_to<{D}>"),
    (
        f"{TENSOR}.shared.global[.tile]{BYTES}.multicast::cluster",
        "[shared] [map] [shared] u16 hint",
        "tensor_load_to<{D}>",
    ),
    (f"{TENSOR}.global.shared[.tile].bulk_group", "[map] [shared]", "tensor_store<{D}>"),
    (f"{TENSOR}.global.shared[.tile].bulk_group", "[map] [shared] hint", "tensor_store<{D}>"),
    (f"{BULK}.prefetch.tensor.<D:1|2|3|4|5>d.L2.global[.tile]", "[map]", "tensor_prefetch<{D}>"),
    (f"{BULK}.prefetch.L2.global", "[global] u32", "bulk_prefetch"),
    (f"{BULK}.commit_group", "", "bulk_commit_group"),
    (f"{BULK}.wait_group[.read]", "n", "bulk_wait_group"),
    ("prefetch[.<param|const>].tensormap", "[global]", "prefetch"),
)
WIDTHS = "|".join(map(str, range(8, 257, 8)))
WGMMA = f"wgmma.mma_async.sync.aligned.m64n<N:{WIDTHS}>"
WARPGROUPS = (
    ("wgmma.fence.sync.aligned", "", "wgmma_fence"),
    ("wgmma.commit_group.sync.aligned", "", "wgmma_commit"),
    ("wgmma.wait_group.sync.aligned", "n", "wgmma_wait"),
    (f"{WGMMA}k16.<A:f32|f16>.<T:f16>.f16", "sum b64 b64 pred n n n n", "wgmma<{N}, {A}, {T}>"),
    (f"{WGMMA}k16.<A:f32|f16>.<T:f16>.f16", "sum x32x4 b64 pred n n n", "wgmma_a<{N}, {A}, {T}>"),
    (f"{WGMMA}k16.<A:f32>.<T:bf16>.bf16", "sum b64 b64 pred n n n n", "wgmma<{N}, {A}, {T}>"),
    (f"{WGMMA}k16.<A:f32>.<T:bf16>.bf16", "sum x32x4 b64 pred n n n", "wgmma_a<{N}, {A}, {T}>"),
    (f"{WGMMA}k8.<A:f32>.<T:tf32>.tf32", "sum b64 b64 pred n n", "wgmma_along_k<{N}, {A}, {T}>"),
    (f"{WGMMA}k8.<A:f32>.<T:tf32>.tf32", "sum x32x4 b64 pred n n", "wgmma_a_along_k<{N}, {A}, {T}>"),
    (f"{WGMMA}k32.<A:f32|f16>.<T:{FP8}>.<B:{FP8}>", "sum b64 b64 pred n n", "wgmma_along_k<{N}, {A}, {T}, {B}>"),
    (f"{WGMMA}k32.<A:f32|f16>.<T:{FP8}>.<B:{FP8}>", "sum x32x4 b64 pred n n", "wgmma_a_along_k<{N}, {A}, {T}, {B}>"),
)
NUMBER = f"u8|s8|{INTEGER}|f16|bf16|f32|f64"
CONVERSIONS = (
    ("cvt.rna.tf32.f32", "=x32 f32", "cvt_rna_tf32"),
    ("cvt.rn[.<relu:relu>].f16x2.f32", "=f16x2 f32 f32", "cvt_pair<f16x2, f16, {relu}>"),
    ("cvt.rn[.<relu:relu>].bf16x2.f32", "=bf16x2 f32 f32", "cvt_pair<bf16x2, bf16, {relu}>"),
    (f"cvt.rn.satfinite[.<relu:relu>].<T:{FP8}>x2.f32", "=b16 f32 f32", "cvt_to_fp8<{T}, {relu}>"),
    (f"cvt.rn.satfinite[.<relu:relu>].<T:{FP8}>x2.f16x2", "=b16 f16x2", "cvt_to_fp8<{T}, {relu}>"),
    (f"cvt.rn[.<relu:relu>].f16x2.<T:{FP8}>x2", "=f16x2 b16", "cvt_from_fp8<{T}, {relu}>"),
    (f"cvt[.<R:rn|rz|rm|rp|rni|rzi|rmi|rpi>].<D:{NUMBER}>.<F:{NUMBER}>", "=~D ~F", "cvt<{D}, {F}, {R}>"),
    (f"cvt[.<R:rn|rz|rm|rp|rni|rzi|rmi|rpi>].sat.<D:{NUMBER}>.<F:{NUMBER}>", "=~D ~F", "cvt_sat<{D}, {F}, {R}>"),
)
THREADS = (
    ("shfl.sync.<m:idx|up|down|bfly>.b32", "=b32 b32 u32 u32 u32", "shfl_{m}"),
    ("vote.sync.ballot.b32", "=b32 pred u32", "vote_ballot"),
    ("vote.sync.<o:any|all|uni>.pred", "=pred pred u32", "vote_{o}"),
    ("match.any.sync.<T:b32|b64>", "=b32 T u32", "match_any<{T}>"),
    ("redux.sync.<o:add|min|max>.<T:u32|s32>", "=T T u32", "redux_{o}<{T}>"),
    ("redux.sync.<o:and|or|xor>.<T:b32>", "=T T u32", "redux_{o}<{T}>"),
    ("activemask.b32", "=b32", "activemask"),
    ("bar.warp.sync", "u32", "bar_warp_sync"),
    ("<bar|bar.cta|barrier|barrier.cta>.sync[.aligned]", "u32", "bar_sync"),
    ("<bar|bar.cta|barrier|barrier.cta>.sync[.aligned]", "u32 u32", "bar_sync_of"),
    ("<bar|bar.cta|barrier|barrier.cta>.arrive[.aligned]", "u32 u32", "bar_arrive"),
    ("nanosleep.u32", "u32", "nanosleep"),
    ("trap", "", "trap"),
)
