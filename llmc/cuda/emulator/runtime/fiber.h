// Switching between fibers: save the registers that a function must preserve, change the stack, restore them.
// About 3 ns, where swapcontext takes 180 (it makes a system call). Jumping instead of `ret` keeps the processor's
// prediction of returns intact.
#pragma once
#include <cstdint>
#include <cstring>

extern "C" void llmc_switch(void** save, void* to);

#ifdef __APPLE__
#define LLMC_SYMBOL(name) "_" name
#else
#define LLMC_SYMBOL(name) name
#endif

#ifdef LLMC_DEFINE_SWITCH
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
#endif

// A stack on which llmc_switch starts `entry`, a function that never returns.
inline void* fresh_stack(char* top, void (*entry)()) {
    uintptr_t sp = (uintptr_t)top & ~(uintptr_t)15;
#if defined(__x86_64__)
    sp -= 64;  // six registers, the address to go to, and the return address that a called function expects
    memset((void*)sp, 0, 64);
    ((void**)sp)[6] = (void*)entry;
#else
    sp -= 160;
    memset((void*)sp, 0, 160);
    ((void**)sp)[11] = (void*)entry;  // x30
#endif
    return (void*)sp;
}
