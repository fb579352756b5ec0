// llmc_switch of fiber.h for each kind of processor: save what a function must preserve, then change the stack.
#ifdef __APPLE__
#define LLMC_SYMBOL(name) "_" name
#else
#define LLMC_SYMBOL(name) name
#endif

#if defined(__x86_64__)
asm(".text\n.globl " LLMC_SYMBOL("llmc_switch") "\n" LLMC_SYMBOL("llmc_switch") ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  popq %rcx\n  jmpq *%rcx\n");
#elif defined(__aarch64__)
asm(".text\n.globl " LLMC_SYMBOL("llmc_switch") "\n" LLMC_SYMBOL("llmc_switch") ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  br x30\n");
#else
#error "the emulator switches threads by hand on x86-64 and 64-bit Arm only"
#endif
