// cooperative_groups::memcpy_async and wait. The copy happens at once; wait is a barrier of the group, as on a GPU.
#pragma once

#include "../../llmc_copy.h"
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class Group, class T, class Size>
LLMC_INLINE void memcpy_async(const Group& group, T* to, const T* from, Size bytes) {
    llmc_copy(to, from, bytes, group.thread_rank(), group.size());
}
template <class Group, class T>
LLMC_INLINE void memcpy_async(const Group& group, T* to, size_t room, const T* from, size_t count) {  // in elements
    llmc_copy(to, from, sizeof(T) * (room < count ? room : count), group.thread_rank(), group.size());
}
template <class Group> LLMC_INLINE void wait(const Group& group, LLMC_HERE) { group.sync(line); }
template <unsigned stages, class Group> LLMC_INLINE void wait_prior(const Group& group, LLMC_HERE) { group.sync(line); }
}  // namespace cooperative_groups
