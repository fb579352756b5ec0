// cooperative_groups::memcpy_async, and wait: for the copies of all threads of the group. The data is not there before.
#pragma once

#include "../../llmc_copy.h"
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class Group, class T, class Size>
LLMC_INLINE void memcpy_async(const Group& group, T* to, const T* from, const Size& bytes) {
    llmc_copy(to, from, bytes, group.thread_rank(), group.size());
    llmc_commit_copies();
}
template <class Group, class T>
LLMC_INLINE void memcpy_async(const Group& group, T* to, size_t room, const T* from, size_t count) {  // in elements
    memcpy_async(group, to, from, sizeof(T) * (room < count ? room : count));
}
template <class Group> LLMC_INLINE void wait(const Group& group, LLMC_HERE) {
    llmc_wait_copies(0);
    group.sync(line);
}
template <unsigned stages, class Group> LLMC_INLINE void wait_prior(const Group& group, LLMC_HERE) {
    llmc_wait_copies(stages);  // all but the last copies, each call of memcpy_async being one
    group.sync(line);
}
}  // namespace cooperative_groups
