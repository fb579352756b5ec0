#include "state.h"
#include "loaded.h"
#include <dlfcn.h>

#ifdef __linux__
#include <link.h>

static int look(struct dl_phdr_info* info, size_t, void* out) {
    Loaded& found = *(Loaded*)out;
    if ((char*)info->dlpi_addr != found.base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& s = info->dlpi_phdr[i];
        char *from = (char*)info->dlpi_addr + s.p_vaddr, *to = from + s.p_memsz;
        if (s.p_type == PT_LOAD) {
            found.end = std::max(found.end, to);
            if (s.p_flags & PF_W) found.data = from, found.data_end = to;
        }
        if (s.p_type == PT_TLS) {
            found.shared = s.p_memsz;
            found.anchor_block = (char*)info->dlpi_tls_data;
        }
    }
    return 1;
}

Loaded look_up(void* symbol, void* (*anchor)()) {
    anchor();  // gives this thread its copy of the thread-local segment
    Dl_info info;
    dladdr(symbol, &info);
    Loaded found;
    found.base = (char*)info.dli_fbase;
    dl_iterate_phdr(look, &found);
    return found;
}
#else  // macOS: sections of the image instead of segments (by construction, not run by us)
#include <mach-o/getsect.h>
#include <mach-o/loader.h>

Loaded look_up(void* symbol, void* (*anchor)()) {
    Dl_info info;
    dladdr(symbol, &info);
    Loaded found;
    found.base = (char*)info.dli_fbase;
    auto* header = (const struct mach_header_64*)info.dli_fbase;
    unsigned long n = 0, zero = 0, data = 0;
    getsegmentdata(header, "__TEXT", &n);
    found.data = (char*)getsegmentdata(header, "__DATA", &data);
    found.data_end = found.data + data;
    found.end = std::max(found.base + n, found.data_end);
    getsectiondata(header, "__DATA", "__thread_bss", &zero);
    getsectiondata(header, "__DATA", "__thread_data", &n);
    found.shared = n + zero;
    found.anchor_block = (char*)anchor() - found.shared / 2;  // somewhere in its middle: the order is the linker's
    return found;
}
#endif
